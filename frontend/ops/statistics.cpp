// What describes a sample: pairs of reductions, covariances, and the area under sampled values.
#include <algorithm>

#include "frontend/ops/promotion.h"
#include "frontend/tensor/autocast.h"
#include "frontend/tensor/impl.h"
#include "weft/composites.h"

namespace weft {

using namespace recorder;

std::pair<Tensor, Tensor> var_mean(const Tensor &x, Dims dims, int64_t correction, bool keepdim,
                                   Location location) {
  Session session("var_mean", location);
  return {var(x, dims, correction, keepdim), mean(x, dims, keepdim)};
}

std::pair<Tensor, Tensor> std_mean(const Tensor &x, Dims dims, int64_t correction, bool keepdim,
                                   Location location) {
  Session session("std_mean", location);
  return {weft::std(x, dims, correction, keepdim), mean(x, dims, keepdim)};
}

std::pair<Tensor, Tensor> aminmax(const Tensor &x, Dims dims, bool keepdim, Location location) {
  Session session("aminmax", location);
  return {min(x, dims, keepdim), max(x, dims, keepdim)};
}

namespace {

Tensor covariance(const Tensor &x, int64_t correction) {
  Var given = floating_operand(x);
  if (given.ndim() > 2)
    fail(ErrorKind::kShape, "x has shape " + to_string(given.dims()) +
                                "; it must be a matrix of a row a variable, or a vector");
  // The matrix product is that of the centered rows, in the dtype in which sums are computed.
  CastsDone casts_done;
  Tensor rows = wrap(widened(given));
  if (given.ndim() < 2)
    rows = rows.reshape({1, -1});
  int64_t samples = rows.shape()[1];
  Tensor centered = rows - rows.mean(1, true);
  // A divisor of 0 gives infinity or NaN, as in PyTorch.
  Tensor result = matmul(centered, centered.transpose(0, 1)) /
                  static_cast<double>(std::max<int64_t>(samples - correction, 0));
  if (given.ndim() < 2)
    result = result.reshape({});
  return result.to(given.dtype());
}

} // namespace

Tensor cov(const Tensor &x, int64_t correction, Location location) {
  Session session("cov", location);
  return covariance(x, correction);
}

Tensor corrcoef(const Tensor &x, Location location) {
  Session session("corrcoef", location);
  Tensor between = covariance(x, 1);
  if (between.ndim() == 0)
    return between / between;
  Tensor deviation = sqrt(diagonal(between));
  return clamp(between / deviation.unsqueeze(1) / deviation.unsqueeze(0), -1.0, 1.0);
}

namespace {

// All but the last, and all but the first, along axis; nothing of fewer than two.
std::pair<Tensor, Tensor> neighbours(const Tensor &x, int64_t axis) {
  int64_t size = x.shape()[static_cast<size_t>(axis)], steps = std::max<int64_t>(size - 1, 0);
  return {x.narrow(axis, 0, steps), x.narrow(axis, size - steps, steps)};
}

// The sum along axis of the means of neighbours.
template <typename Width> Tensor area(const Tensor &y, int64_t axis, const Width &width) {
  auto [before, after] = neighbours(y, axis);
  return ((before + after) * width).sum(axis) / 2.0;
}

int64_t sampled_axis(const Tensor &y, int64_t dim) {
  const TypeInfo &type = *checked(y, "y")->type;
  if (type.ndim() == 0)
    fail(ErrorKind::kShape, "y is " + describe(type) + "; it needs at least one dimension");
  return normalize_dim(dim, type.ndim(), "dim");
}

} // namespace

Tensor trapezoid(const Tensor &y, double dx, int64_t dim, Location location) {
  Session session("trapezoid", location);
  return area(y, sampled_axis(y, dim), dx);
}

Tensor trapezoid(const Tensor &y, const Tensor &x, int64_t dim, Location location) {
  Session session("trapezoid", location);
  int64_t axis = sampled_axis(y, dim);
  const TypeInfo &at = *checked(x, "x")->type;
  int64_t size = y.shape()[static_cast<size_t>(axis)];
  // A vector is along dim; else x has y's dims, where sizes of 1 broadcast.
  Tensor places = x;
  int64_t along = axis;
  if (at.ndim() == 1) {
    Shape shape(static_cast<size_t>(y.ndim()), 1);
    shape[static_cast<size_t>(axis)] = at.dims[0];
    places = x.reshape(shape);
  } else {
    along = axis - y.ndim() + at.ndim();
  }
  bool fits = at.ndim() <= y.ndim() && along >= 0;
  if (!fits || places.shape()[static_cast<size_t>(along)] != size)
    fail(ErrorKind::kShape, "x has shape " + to_string(at.dims) + ", y has shape " +
                                to_string(y.shape()) + ": x must have " + std::to_string(size) +
                                " places along dimension " + std::to_string(axis) +
                                " of y, and no more dimensions than y");
  auto [before, after] = neighbours(places, along);
  return area(y, axis, after - before);
}

} // namespace weft
