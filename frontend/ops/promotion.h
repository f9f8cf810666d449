// Promotion and broadcasting, made explicit before an op is recorded. Private to the library.
#pragma once

#include "frontend/recorder/recorder.h"

namespace weft::recorder {

// PyTorch's rule: tensors with dimensions decide, then 0-dim tensors, then scalars; a lower rank changes the dtype only by a higher
// category.
DType result_type(std::span<const TensorArg> args);
// The argument in this dtype: a scalar becomes a leaf, a tensor is cast where it must be.
Var operand(const TensorArg &arg, DType dtype, const char *name);
// numpy's rule. Fails with both names and shapes.
Shape broadcast_shape(const Shape &x, const Shape &y, const char *x_name, const char *y_name);
Var broadcast(Var x, const Shape &shape);

struct Operands {
  Var x, y;
};
// Both operands in one dtype and one shape. floating: integers and bools become float32. specialized: a bit for each operand that is a
// constant of the program while it is a scalar (make_specialized_scalar).
Operands promote(const TensorArg &x, const TensorArg &y, bool floating = false, uint32_t specialized = 0);

// x, in float32 where it is an integer or bool.
Var floating_operand(const Tensor &x, const char *name = "x");

} // namespace weft::recorder
