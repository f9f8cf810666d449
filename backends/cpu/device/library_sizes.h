// Sizes that oneDNN is given.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

namespace weft::backends::cpu {

// oneDNN 2.6.3 counts blocks of a dim in 32 bits, rounded up: 2^32 rows end the process by a
// division by zero.
inline constexpr int64_t kMostOfLibrary = int64_t(1) << 30;

// Whether it can count as many things as the product of these sizes says.
inline bool library_counts(std::span<const int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    if (__builtin_mul_overflow(product, size, &product))
      return false;
  return product <= kMostOfLibrary;
}
inline bool library_counts(std::initializer_list<int64_t> sizes) {
  return library_counts(std::span(sizes.begin(), sizes.size()));
}

} // namespace weft::backends::cpu
