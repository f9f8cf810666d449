// Where buffers and their parts begin, and how large they may be.
#pragma once

#include <cstdint>

namespace weft::runtime {

// Every buffer, and every offset in the arena, the constants and the state, is a multiple of this
// many bytes. Kernels rely on it: it is a cache line, and an AVX-512 vector.
inline constexpr int64_t kBufferAlignment = 64;
// No size is larger: sums of two such sizes stay far from overflow, and no machine has as much
// memory.
inline constexpr int64_t kMostBufferBytes = int64_t{1} << 56;
// bytes, rounded up to the next multiple of kBufferAlignment.
inline constexpr int64_t align(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

} // namespace weft::runtime
