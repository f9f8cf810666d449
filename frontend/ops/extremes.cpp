// The largest and the smallest with their places, and what runs along a dim. Values follow from
// their places by a gather, which gives them their derivative.
#include <algorithm>
#include <limits>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/recorder.h"
#include "frontend/tensor/autocast.h"
#include "frontend/tensor/impl.h"
#include "weft/composites.h"

namespace weft {

using namespace recorder;

namespace {

// Bools have an order, but no arg_max: that of integers is the same.
Tensor ordered(const Tensor &x) {
  return x.dtype() == boolean ? x.to(uint8) : x;
}

std::pair<Tensor, Tensor> extreme_with_indices(const Tensor &x, int64_t dim, bool keepdim,
                                               bool largest) {
  const TypeInfo &type = *checked(x, "x")->type;
  int64_t axis = normalize_dim_or_scalar(dim, type.ndim(), "dim");
  if (type.ndim() == 0)
    return {x, zeros({}, int64)};
  Tensor order = ordered(x);
  Tensor indices = largest ? argmax(order, axis, true) : argmin(order, axis, true);
  Tensor values = gather(x, axis, indices);
  if (keepdim)
    return {values, indices};
  return {values.squeeze(axis), indices.squeeze(axis)};
}

std::pair<Tensor, Tensor> running_extreme(const Tensor &x, int64_t dim, bool largest) {
  int64_t axis = normalize_dim_or_scalar(dim, checked(x, "x")->type->ndim(), "dim");
  if (x.ndim() == 0)
    return {x, zeros({}, int64)};
  Tensor indices =
      wrap((largest ? emit_cum_arg_max : emit_cum_arg_min)(read(ordered(x), "x"), axis));
  return {gather(x, axis, indices), indices};
}

} // namespace

std::pair<Tensor, Tensor> max_with_indices(const Tensor &x, int64_t dim, bool keepdim,
                                           Location location) {
  Session session("max_with_indices", location);
  return extreme_with_indices(x, dim, keepdim, true);
}

std::pair<Tensor, Tensor> min_with_indices(const Tensor &x, int64_t dim, bool keepdim,
                                           Location location) {
  Session session("min_with_indices", location);
  return extreme_with_indices(x, dim, keepdim, false);
}

std::pair<Tensor, Tensor> cummax(const Tensor &x, int64_t dim, Location location) {
  Session session("cummax", location);
  return running_extreme(x, dim, true);
}

std::pair<Tensor, Tensor> cummin(const Tensor &x, int64_t dim, Location location) {
  Session session("cummin", location);
  return running_extreme(x, dim, false);
}

// Terms are exp(x - the largest so far), and sums are taken from one largest to the next by a
// factor of at most 1. The largest is a constant to the derivative, which it does not change.
Tensor logcumsumexp(const Tensor &x, int64_t dim, Location location) {
  Session session("logcumsumexp", location);
  Var given = floating_operand(x);
  int64_t axis = normalize_dim_or_scalar(dim, given.ndim(), "dim");
  if (given.ndim() == 0)
    return wrap(given);
  Tensor wide = wrap(widened(given));
  int64_t size = given.dims()[static_cast<size_t>(axis)];
  Tensor largest = running_extreme(wide.detach(), axis, true).first;
  Tensor base = where(is_finite(largest), largest, 0);
  Tensor before = cat({base.narrow(axis, 0, std::min<int64_t>(size, 1)),
                       base.narrow(axis, 0, std::max<int64_t>(size - 1, 0))},
                      axis);
  // Where a base of 0 stands for none, what is before is 0 or infinite at any factor.
  Tensor kept = exp(minimum(before - base, 0)), terms = exp(wide - base);
  Tensor sum = wrap(emit_recurrence(read(kept, "x"), read(terms, "x"), axis));
  // Of nothing but -inf: the derivative is 0, as logsumexp's.
  Tensor none = sum == 0, logarithm = log(where(none, 1, sum));
  return where(none, -std::numeric_limits<double>::infinity(), base + logarithm).to(given.dtype());
}

Tensor cumprod(const Tensor &x, int64_t dim, Location location) {
  Session session("cumprod", location);
  const TypeInfo &type = *checked(x, "x")->type;
  DType dtype = is_floating(type.dtype) ? call_dtype(type.dtype) : int64;
  Tensor result = x.to(computing_dtype(dtype));
  int64_t axis = normalize_dim_or_scalar(dim, type.ndim(), "dim");
  if (type.ndim() > 0)
    result = wrap(emit_cumprod(read(result, "x"), axis));
  return of_its_own(result.to(dtype), x);
}

} // namespace weft
