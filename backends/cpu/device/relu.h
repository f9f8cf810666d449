// The ReLU behind a convolution.
#pragma once

#include <limits>

namespace weft::backends::cpu {

// max(x, 0), and of that the minimum with `most`; NaN stays.
struct Relu {
  bool follows = false;
  float most = std::numeric_limits<float>::infinity();
  explicit operator bool() const {
    return follows;
  }
  bool clips() const {
    return most < std::numeric_limits<float>::infinity();
  }
};

// V: a vector of lanes, or a float.
template <typename V>
__attribute__((always_inline)) inline V rectified(V value, const Relu &relu) {
  if (!relu)
    return value;
  value = value <= V(0.0f) ? V(0.0f) : value;
  return value >= V(relu.most) ? V(relu.most) : value;
}

} // namespace weft::backends::cpu
