// Values by a formula of their index, which tools/models/formula.py computes as well.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/tensor.h"

namespace weft::tests {

// FNV-1a in 32 or 64 bits.
template <typename T> T fnv(std::string_view text) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  T value = sizeof(T) == 4 ? T(0x811C9DC5) : T(0xCBF29CE484222325);
  for (char c : text)
    value = (value ^ static_cast<unsigned char>(c)) *
            (sizeof(T) == 4 ? T(0x01000193) : T(0x100000001B3));
  return value;
}

// MurmurHash3's finish of each index, moved by the name's hash.
inline uint32_t hash_at(uint32_t name, uint32_t index) {
  uint32_t x = index * 0x9E3779B1u + name;
  x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
  x = (x ^ (x >> 13)) * 0xC2B2AE35u;
  return x ^ (x >> 16);
}

inline int64_t elements_of(const Shape &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

// Around `middle`, at most `spread` away.
inline std::vector<float> numbers(std::string_view name, int64_t count, double middle = 0,
                                  double spread = 1) {
  std::vector<float> values(static_cast<size_t>(count));
  uint32_t start = fnv<uint32_t>(name);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(
        middle + spread * (hash_at(start, static_cast<uint32_t>(i)) / 2147483648.0 - 1));
  return values;
}

// In [-1, 1).
inline Tensor unit(std::string_view name, const Shape &shape) {
  return Tensor::from(numbers(name, elements_of(shape)), shape);
}

inline Tensor indices(std::string_view name, const Shape &shape, uint32_t count) {
  std::vector<int64_t> values(static_cast<size_t>(elements_of(shape)));
  uint32_t start = fnv<uint32_t>(name);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = hash_at(start, static_cast<uint32_t>(i)) % count;
  return Tensor::from(values, shape);
}

// Of matrices and kernels so large that relu keeps the variance; around 1 what scales.
inline Tensor weight(std::string_view name, const Shape &shape) {
  double middle = 0, spread = 0.2;
  if (shape.size() >= 2)
    spread = std::sqrt(6.0 / static_cast<double>(elements_of(shape) / shape[0]));
  else if (name.ends_with("weight") || name.ends_with("running_var"))
    middle = 1;
  return Tensor::from(numbers(name, elements_of(shape), middle, spread), shape);
}

} // namespace weft::tests
