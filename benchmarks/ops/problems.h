// What a vendor library is asked for in the cases of the suite `ops` that it has: the same op by
// direct calls (onednn.h).
#pragma once

#include <cstdint>
#include <variant>

namespace weft::benchmarks {

// [batch, m, k] times [batch, k, n]; backward: the derivative by both operands.
struct MatmulProblem {
  int64_t batch, m, k, n;
  bool transposed; // the second operand is stored as [batch, n, k]
  bool is_weight;  // the second operand does not change: a library may keep it in a form of its own
  bool bias;       // [n] is added
  bool backward = false;
};

// Square images and kernels. A result has (image + 2 padding - kernel) / stride + 1 rows and
// columns.
struct ConvolutionProblem {
  int64_t batch, channels, outputs, image, kernel, stride, padding, groups;
  bool backward = false; // the derivative by image and weight

  int64_t result() const {
    return (image + 2 * padding - kernel) / stride + 1;
  }
};

// Nothing: the library has no such op, or is not asked.
using LibraryProblem = std::variant<std::monostate, MatmulProblem, ConvolutionProblem>;

} // namespace weft::benchmarks
