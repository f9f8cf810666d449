// The numbers in "the GPU's" memory, as the libraries that stand in for others read and write them.
#pragma once

#include <cstdint>
#include <cstring>

#include "runtime/core/float16.h"

namespace weft::backends::cuda::recording {

enum class Number { kFloat32, kFloat64, kFloat16, kBFloat16 };

inline int64_t byte_size(Number number) {
  return number == Number::kFloat64 ? 8 : number == Number::kFloat32 ? 4 : 2;
}

// Element by element in float64; those of 16 bits are rounded to float32 first, as what the
// libraries compute in.
class Elements {
public:
  Elements(Number number, unsigned char *data) : number_(number), data_(data) {}
  double get(int64_t at) const {
    if (number_ == Number::kFloat64)
      return read<double>(at);
    if (number_ == Number::kFloat32)
      return read<float>(at);
    auto bits = read<uint16_t>(at);
    return number_ == Number::kFloat16 ? float16_to_float(bits) : bfloat16_to_float(bits);
  }
  void set(int64_t at, double value) const {
    auto rounded = static_cast<float>(value);
    if (number_ == Number::kFloat64)
      write(at, value);
    else if (number_ == Number::kFloat32)
      write(at, rounded);
    else
      write<uint16_t>(at, number_ == Number::kFloat16 ? float_to_float16(rounded)
                                                      : float_to_bfloat16(rounded));
  }

private:
  template <typename T> T read(int64_t at) const {
    T value{};
    std::memcpy(&value, data_ + at * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  }
  template <typename T> void write(int64_t at, T value) const {
    std::memcpy(data_ + at * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
  }

  Number number_;
  unsigned char *data_;
};

} // namespace weft::backends::cuda::recording
