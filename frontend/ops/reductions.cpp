// Reductions; what the dialect does not have is built from what it has.
#include <cmath>
#include <limits>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/emit.h"
#include "frontend/tensor/impl.h"
#include "weft/ops.h"

namespace weft {

using namespace recorder;

namespace {

// x's shape with 1 for each of dims.
Shape keep(const Shape &shape, const Shape &dims) {
  Shape result = shape;
  for (int64_t dim : dims) result[dim] = 1;
  return result;
}

int64_t count(const Shape &shape, const Shape &dims) {
  int64_t n = 1;
  for (int64_t dim : dims) n *= shape[dim];
  return n;
}

Var reduce(ReduceKind kind, const Var &x, const Shape &dims, bool keepdim) {
  Var result = dims.empty() ? x : emit_reduce(kind, x, dims);
  return keepdim && !dims.empty() ? emit_reshape(result, keep(x.dims(), dims)) : result;
}

Var want_floating(const Tensor &x) {
  Var var = read(x, "x");
  if (!is_floating(var.dtype())) fail(ErrorKind::kDType, "x is " + describe(var) + "; it must be floating: convert with to(float32)");
  return var;
}

void want_elements(const Var &x, const Shape &dims) {
  if (count(x.dims(), dims) == 0)
    fail(ErrorKind::kShape, "x has shape " + to_string(x.dims()) + ": an empty set of elements has no largest or smallest one");
}

} // namespace

Tensor sum(const Tensor &x, Dims dims, bool keepdim, Location location) {
  Session session("sum", location);
  Var var = read(x, "x");
  if (!is_floating(var.dtype()) && var.dtype() != DType::kInt64) var = emit_cast(var, DType::kInt64);
  return wrap(reduce(ReduceKind::kSum, var, normalize_dims(dims, var.ndim(), "dims"), keepdim));
}

Tensor mean(const Tensor &x, Dims dims, bool keepdim, Location location) {
  Session session("mean", location);
  Var var = want_floating(x);
  return wrap(reduce(ReduceKind::kMean, var, normalize_dims(dims, var.ndim(), "dims"), keepdim));
}

Tensor max(const Tensor &x, Dims dims, bool keepdim, Location location) {
  Session session("max", location);
  Var var = read(x, "x");
  if (var.dtype() == DType::kBool) fail(ErrorKind::kDType, "x is bool; convert it with to() first");
  Shape which = normalize_dims(dims, var.ndim(), "dims");
  want_elements(var, which);
  return wrap(reduce(ReduceKind::kMax, var, which, keepdim));
}

Tensor min(const Tensor &x, Dims dims, bool keepdim, Location location) {
  Session session("min", location);
  Var var = read(x, "x");
  if (!is_floating(var.dtype()) && var.dtype() != DType::kInt32 && var.dtype() != DType::kInt64)
    fail(ErrorKind::kDType, "x is " + describe(var) + "; it must be floating, int32 or int64");
  Shape which = normalize_dims(dims, var.ndim(), "dims");
  want_elements(var, which);
  // -max(-x); for integers -1 - max(-1 - x), which does not overflow at the smallest one.
  bool floating = is_floating(var.dtype());
  Var minus_one = floating ? Var() : emit_constant(-1, var.dtype());
  auto flip = [&](const Var &y) {
    return floating ? emit_unary(Unary::kNeg, y) : emit_binary(Binary::kSub, broadcast(minus_one, y.dims()), y);
  };
  return wrap(flip(reduce(ReduceKind::kMax, flip(var), which, keepdim)));
}

Tensor var(const Tensor &x, Dims dims, int64_t correction, bool keepdim, Location location) {
  Session session("var", location);
  Var input = want_floating(x);
  Shape which = normalize_dims(dims, input.ndim(), "dims");
  Var mean = reduce(ReduceKind::kMean, input, which, true);
  Var centered = emit_binary(Binary::kSub, input, broadcast(mean, input.dims()));
  Var squares = reduce(ReduceKind::kSum, emit_binary(Binary::kMul, centered, centered), which, keepdim);
  // A divisor of 0 or less gives infinity or NaN, as in PyTorch.
  double divisor = static_cast<double>(std::max<int64_t>(count(input.dims(), which) - correction, 0));
  return wrap(emit_binary(Binary::kDiv, squares, broadcast(emit_constant(divisor, input.dtype()), squares.dims())));
}

Tensor norm(const Tensor &x, Dims dims, bool keepdim, Location location) {
  Session session("norm", location);
  Var input = want_floating(x);
  Shape which = normalize_dims(dims, input.ndim(), "dims");
  return wrap(emit_unary(Unary::kSqrt, reduce(ReduceKind::kSum, emit_binary(Binary::kMul, input, input), which, keepdim)));
}

Tensor argmax(const Tensor &x, int64_t dim, bool keepdim, Location location) {
  Session session("argmax", location);
  const TypeInfo type = *checked(x, "x")->type;
  int64_t axis = normalize_dim(dim, type.ndim(), "dim");
  Shape dims = type.ndim() > 0 ? type.dims : Shape{1};
  if (dims[axis] == 0) fail(ErrorKind::kShape, "x has shape " + to_string(type.dims) + ": an empty set of elements has no largest one");
  std::vector<double> values = x.to_vector<double>(location);
  int64_t inner = 1, outer = 1, n = dims[axis];
  for (int64_t i = axis + 1; i < static_cast<int64_t>(dims.size()); ++i) inner *= dims[i];
  for (int64_t i = 0; i < axis; ++i) outer *= dims[i];
  std::vector<int64_t> result(outer * inner);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      const double *at = values.data() + o * n * inner + i;
      int64_t best = 0;
      for (int64_t k = 1; k < n && !std::isnan(at[best * inner]); ++k)
        if (at[k * inner] > at[best * inner] || std::isnan(at[k * inner])) best = k;
      result[o * inner + i] = best;
    }
  Shape shape = keep(dims, {axis});
  if (!keepdim || type.ndim() == 0) shape.erase(shape.begin() + axis);
  return Tensor::from<int64_t>(result, shape, location);
}

} // namespace weft
