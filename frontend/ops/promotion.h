// Promotion and broadcasting, made explicit before an op is recorded. Private to the library.
#pragma once

#include <optional>

#include "frontend/recorder/record/emit.h"
#include "frontend/recorder/record/recorder.h"

namespace weft::recorder {

// PyTorch's rule: tensors with dimensions decide, then 0-dim tensors, then scalars; a lower rank
// changes the dtype only by a higher category.
DType result_type(std::span<const TensorArg> args);
// The argument in this dtype: a scalar becomes a leaf, a tensor is cast where it must be.
Var operand(const TensorArg &arg, DType dtype, const char *name);
// A scalar that fills a tensor of this dtype. Fails where the dtype cannot hold it, as PyTorch
// does: 300 in uint8, 1e5 in float16, NaN in an integer. A fraction is cut off; a negative number
// of uint8's size wraps.
Var make_fitting_scalar(const Scalar &scalar, DType dtype);
// Fails as make_fitting_scalar does, which calls it `value`.
void want_fitting(const Scalar &scalar, DType dtype, const char *argument = "value");
// A number that the elements of an integer dtype are bounded by, in that dtype. Beyond what the
// dtype holds it bounds nothing and becomes the dtype's own bound, or everything lies beyond it:
// then it fails. Other dtypes: the number itself.
Scalar bound_for(const Scalar &scalar, DType dtype, bool from_below, const char *name);
// The numbers that a dtype of integers holds; the largest finite one of any.
int64_t least_integer(DType dtype);
int64_t most_integer(DType dtype);
double largest_finite(DType dtype);
// What changes nothing in the largest and the smallest of numbers.
Scalar lowest(DType dtype);
Scalar highest(DType dtype);
// numpy's rule. Fails with both names and shapes.
Shape broadcast_shape(const Shape &x, const Shape &y, const char *x_name, const char *y_name);
Var broadcast(Var x, const Shape &shape);

// x's first elements along each dim that is longer than in `shape`, which has as many dims; what is
// shorter stays.
Var leading_part(const Var &x, const Shape &shape);
// Fails where they differ, with both names and types.
void want_one_dtype(const TypeInfo &x, const char *x_name, const TypeInfo &y, const char *y_name);

struct Operands {
  Var x, y;
  DType result; // the promoted dtype: that of x and y, unless they are wide
};
// Both operands in one dtype and one shape. floating: integers and bools become float32.
// specialized: a bit for each operand that is a constant of the program while it is a scalar
// (make_specialized_scalar). wide: where a scalar or a 0-dim tensor meets bfloat16 or float16, both
// are float32, so that the number is not rounded before the result is (PyTorch does so in products
// and quotients).
Operands promote(const TensorArg &x, const TensorArg &y, bool floating = false,
                 uint32_t specialized = 0, bool wide = false);

// x op y as users write it, of an operator or in place: promoted (in float32, for `floating`, where
// neither is floating), rounded once. Bools give their logic; what PyTorch refuses of them fails
// with `name`. alpha: a factor of y, of a sum or a difference.
Var arithmetic(EmitBinary op, const char *name, const TensorArg &x, const TensorArg &y,
               bool floating = false, std::optional<Scalar> alpha = {});

// x, in float32 where it is an integer or bool.
Var floating_operand(const Tensor &x, const char *name = "x");

// indices, which must be int32 or int64.
Var index_operand(const Tensor &indices, const char *name = "indices");

// Targets of classes, in int64 where their dtype does not hold ignore_index, which is none of them
// then.
Var beside_ignore_index(Var targets, int64_t ignore_index);

// x, which must be floating: what PyTorch refuses for integers is refused here too, before a loss
// or a norm is silently of rounded data.
Var floating_only(const Tensor &x, const char *name = "x");

// sqrt(x) whose derivatives at 0 are 0, as a norm's are, where the root's own are infinite.
Tensor smooth_root(const Tensor &x);

// What a function that is one to its caller computes in, so that it rounds once although it records
// several ops: float32 for 16-bit floats, else the dtype itself. widened(x) is x in that dtype,
// rounded(y, dtype) the result back in the caller's.
DType computing_dtype(DType dtype);
Var widened(const Var &x);
Var rounded(Var y, DType dtype);

// A bias of `count` numbers for a product of `dtype` numbers: in that dtype, or under a scope
// float32, since it is added to the widened sum.
Var bias_of(const Tensor &bias, int64_t count, DType dtype);

} // namespace weft::recorder
