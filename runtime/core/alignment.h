// Where buffers and their parts begin.
#pragma once

#include <cstdint>

namespace weft::runtime {

// Every buffer, and every offset in the arena, the constants and the state, is a multiple of this
// many bytes. Kernels rely on it: it is a cache line, and an AVX-512 vector.
inline constexpr int64_t kBufferAlignment = 64;
// bytes, rounded up to the next multiple of kBufferAlignment.
inline constexpr int64_t align(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

} // namespace weft::runtime
