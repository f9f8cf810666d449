// Reductions; what the dialect does not have is built from what it has.

#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/tensor/impl.h"
#include "weft/ops.h"

namespace weft {

using namespace recorder;

namespace {

// x's shape with 1 for each of dims.
Shape keep(const Shape &shape, const Shape &dims) {
  Shape result = shape;
  for (int64_t dim : dims)
    result[dim] = 1;
  return result;
}

int64_t count(const Shape &shape, const Shape &dims) {
  int64_t n = 1;
  for (int64_t dim : dims)
    n *= shape[dim];
  return n;
}

using EmitReduction = Var (*)(const Var &, std::span<const int64_t>);

Var reduce(EmitReduction emit, const Var &x, const Shape &dims, bool keepdim) {
  Var result = dims.empty() ? x : emit(x, dims);
  return keepdim && !dims.empty() ? emit_reshape(result, keep(x.dims(), dims)) : result;
}

// Over `dims`, as the caller gave them.
Tensor reduced(EmitReduction emit, const Var &x, const Dims &dims, bool keepdim) {
  return wrap(reduce(emit, x, normalize_dims(dims, x.ndim(), "dims"), keepdim));
}

// bool and integers add up and multiply as int64.
Var summand(const Tensor &x) {
  Var var = read(x, "x");
  if (!is_floating(var.dtype()))
    var = rounded(std::move(var), DType::kInt64);
  return var;
}

Var truth(const Tensor &x) {
  return rounded(read(x, "x"), DType::kBool);
}

void want_elements(const Var &x, const Shape &dims) {
  if (count(x.dims(), dims) == 0)
    fail(ErrorKind::kShape, "x has shape " + to_string(x.dims()) +
                                ": an empty set of elements has no largest or smallest one");
}

Var extreme(EmitReduction emit, const Tensor &x, const Dims &dims, bool keepdim) {
  Var var = read(x, "x");
  Shape which = normalize_dims(dims, var.ndim(), "dims");
  want_elements(var, which);
  return reduce(emit, var, which, keepdim);
}

// Along dim, or over all elements.
Var arg(const Tensor &x, std::optional<int64_t> dim, bool keepdim, bool largest) {
  Var var = read(x, "x");
  if (var.dtype() == DType::kBool)
    fail(ErrorKind::kDType, "x is bool; convert it with to() first");
  Shape shape = var.dims();
  int64_t axis = 0;
  if (!dim || shape.empty()) {
    if (dim)
      normalize_dim_or_scalar(*dim, 0, "dim");
    Shape all(shape.size());
    for (size_t i = 0; i < all.size(); ++i)
      all[i] = static_cast<int64_t>(i);
    want_elements(var, all);
    var = emit_reshape(var, {count(shape, all)});
  } else {
    axis = normalize_dim(*dim, var.ndim(), "dim");
    want_elements(var, {axis});
  }
  Var index = (largest ? emit_arg_max : emit_arg_min)(var, axis);
  if (!keepdim || shape.empty())
    return index;
  if (!dim)
    return emit_reshape(index, Shape(shape.size(), 1));
  return emit_reshape(index, keep(shape, {axis}));
}

} // namespace

Tensor sum(const Tensor &x, Dims dims, bool keepdim, Location location) {
  Session session("sum", location);
  return reduced(emit_reduce_sum, summand(x), dims, keepdim);
}

Tensor mean(const Tensor &x, Dims dims, bool keepdim, Location location) {
  Session session("mean", location);
  return reduced(emit_reduce_mean, floating_only(x), dims, keepdim);
}

Tensor max(const Tensor &x, Dims dims, bool keepdim, Location location) {
  Session session("max", location);
  return wrap(extreme(emit_reduce_max, x, dims, keepdim));
}

Tensor min(const Tensor &x, Dims dims, bool keepdim, Location location) {
  Session session("min", location);
  return wrap(extreme(emit_reduce_min, x, dims, keepdim));
}

Tensor amax(const Tensor &x, Dims dims, bool keepdim, Location location) {
  Session session("amax", location);
  return max(x, std::move(dims), keepdim);
}

Tensor amin(const Tensor &x, Dims dims, bool keepdim, Location location) {
  Session session("amin", location);
  return min(x, std::move(dims), keepdim);
}

Tensor prod(const Tensor &x, Dims dims, bool keepdim, Location location) {
  Session session("prod", location);
  return reduced(emit_reduce_prod, summand(x), dims, keepdim);
}

Tensor any(const Tensor &x, Dims dims, bool keepdim, Location location) {
  Session session("any", location);
  return reduced(emit_reduce_max, truth(x), dims, keepdim);
}

Tensor all(const Tensor &x, Dims dims, bool keepdim, Location location) {
  Session session("all", location);
  return reduced(emit_reduce_min, truth(x), dims, keepdim);
}

Tensor var(const Tensor &x, Dims dims, int64_t correction, bool keepdim, Location location) {
  Session session("var", location);
  Var given = floating_only(x), input = widened(given);
  Shape which = normalize_dims(dims, input.ndim(), "dims");
  Var mean = reduce(emit_reduce_mean, input, which, true);
  Var centered = emit_sub(input, broadcast(mean, input.dims()));
  Var squares = reduce(emit_reduce_sum, emit_mul(centered, centered), which, keepdim);
  // A divisor of 0 or less gives infinity or NaN, as in PyTorch.
  double divisor =
      static_cast<double>(std::max<int64_t>(count(input.dims(), which) - correction, 0));
  Var result = emit_div(squares, broadcast(emit_constant(divisor, input.dtype()), squares.dims()));
  return wrap(rounded(result, given.dtype()));
}

Tensor argmax(const Tensor &x, std::optional<int64_t> dim, bool keepdim, Location location) {
  Session session("argmax", location);
  return wrap(arg(x, dim, keepdim, true));
}

Tensor argmin(const Tensor &x, std::optional<int64_t> dim, bool keepdim, Location location) {
  Session session("argmin", location);
  return wrap(arg(x, dim, keepdim, false));
}

Tensor cumsum(const Tensor &x, int64_t dim, Location location) {
  Session session("cumsum", location);
  Var var = summand(x);
  int64_t axis = normalize_dim_or_scalar(dim, var.ndim(), "dim");
  return wrap(var.ndim() == 0 ? var : emit_cumsum(var, axis));
}

} // namespace weft
