// Where buffers and their parts begin.
#pragma once

#include <cstdint>

namespace weft::runtime {

// Every buffer, and every arena, constant and state offset, is a multiple of so many bytes, so that
// kernels may rely on it: a cache line, an AVX-512 vector.
inline constexpr int64_t kBufferAlignment = 64;
// The bytes up to the next multiple of it.
inline constexpr int64_t align(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

} // namespace weft::runtime
