// The largest and the smallest with their places, and what runs along a dim, in log2(n) passes:
// after each an element knows of twice as many (Hillis and Steele 1986). Values follow from their
// places by a gather, which gives them their derivative.
#include "frontend/ops/promotion.h"
#include "frontend/recorder/recorder.h"
#include "frontend/tensor/impl.h"
#include "weft/composites.h"

namespace weft {

using namespace recorder;

namespace {

std::pair<Tensor, Tensor> extreme_with_indices(const Tensor &x, int64_t dim, bool keepdim,
                                               bool largest) {
  const TypeInfo &type = *checked(x, "x")->type;
  int64_t axis = normalize_dim_or_scalar(dim, type.ndim(), "dim");
  if (type.ndim() == 0)
    return {x, zeros({}, int64)};
  // Bools have an order, but no arg_max: that of integers is the same.
  Tensor order = type.dtype == boolean ? x.to(uint8) : x;
  Tensor indices = largest ? argmax(order, axis, true) : argmin(order, axis, true);
  Tensor values = gather(x, axis, indices);
  if (keepdim)
    return {values, indices};
  return {values.squeeze(axis), indices.squeeze(axis)};
}

// result[i] = combine(result of the first i - reach .. i - 1, result of those from i - reach + 1
// on), for reach 1, 2, 4, ...
template <typename Combine> Tensor scanned(Tensor x, int64_t axis, Combine combine) {
  int64_t n = x.shape()[static_cast<size_t>(axis)];
  for (int64_t reach = 1; reach < n; reach *= 2)
    x = cat({x.narrow(axis, 0, reach),
             combine(x.narrow(axis, 0, n - reach), x.narrow(axis, reach, n - reach))},
            axis);
  return x;
}

std::pair<Tensor, Tensor> running_extreme(const Tensor &x, int64_t dim, bool largest) {
  const TypeInfo &type = *checked(x, "x")->type;
  int64_t axis = normalize_dim_or_scalar(dim, type.ndim(), "dim");
  if (type.ndim() == 0)
    return {x, zeros({}, int64)};
  int64_t n = type.dims[axis];
  Shape along(static_cast<size_t>(type.ndim()), 1);
  along[axis] = n;
  Tensor values = x.detach(), indices = arange(n).reshape(along).expand(type.dims);
  for (int64_t reach = 1; reach < n; reach *= 2) {
    Tensor before = values.narrow(axis, 0, n - reach), self = values.narrow(axis, reach, n - reach);
    Tensor stays = largest ? self >= before : self <= before;
    if (is_floating(type.dtype))
      stays = stays | is_nan(self);
    Tensor chosen =
        where(stays, indices.narrow(axis, reach, n - reach), indices.narrow(axis, 0, n - reach));
    values = cat({values.narrow(axis, 0, reach), where(stays, self, before)}, axis);
    indices = cat({indices.narrow(axis, 0, reach), chosen}, axis);
  }
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

Tensor logcumsumexp(const Tensor &x, int64_t dim, Location location) {
  Session session("logcumsumexp", location);
  Var given = floating_operand(x);
  int64_t axis = normalize_dim_or_scalar(dim, given.ndim(), "dim");
  if (given.ndim() == 0)
    return wrap(given);
  Tensor result = scanned(wrap(widened(given)), axis, [](const Tensor &before, const Tensor &self) {
    return logaddexp(before, self);
  });
  return result.to(given.dtype());
}

Tensor cumprod(const Tensor &x, int64_t dim, Location location) {
  Session session("cumprod", location);
  const TypeInfo &type = *checked(x, "x")->type;
  Tensor result = is_floating(type.dtype) ? x.to(computing_dtype(type.dtype)) : x.to(int64);
  int64_t axis = normalize_dim_or_scalar(dim, type.ndim(), "dim");
  if (type.ndim() > 0)
    result = scanned(result, axis,
                     [](const Tensor &before, const Tensor &self) { return self * before; });
  return of_its_own(is_floating(type.dtype) ? result.to(type.dtype) : result, x);
}

} // namespace weft
