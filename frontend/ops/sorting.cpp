// Order along a dim: weft.arg_sort says where the elements stand, and a gather takes their values,
// which gives them their derivative.
#include <cmath>
#include <limits>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/recorder/record/recorder.h"
#include "frontend/tensor/impl.h"
#include "weft/composites.h"

namespace weft {

using namespace recorder;

namespace {

// Along dim 0 or -1, a tensor without dimensions is a vector of its element: f(x, axis) of that
// vector, each result again without the dimension that it has from it.
template <typename F>
std::pair<Tensor, Tensor> along(const Tensor &x, int64_t dim, bool keepdim, F f) {
  int64_t rank = checked(x, "x")->type->ndim(), axis = normalize_dim_or_scalar(dim, rank, "dim");
  if (rank > 0)
    return f(x, axis, keepdim);
  auto [values, indices] = f(x.reshape({1}), 0, false);
  return {values.reshape({}), indices.reshape({})};
}

Tensor ordered(const Tensor &x, int64_t axis, bool descending,
               std::optional<int64_t> count = std::nullopt) {
  if (count && *count == x.size(axis)) // all: the op of a sort
    count.reset();
  return wrap(emit_arg_sort(read(x, "x"), axis, descending, count));
}

// Up to so many of rows of up to so many elements are searched for: some 20 times as fast as a sort
// of rows of 16. A third takes longer to compile than most programs gain by it.
constexpr int64_t kSearched = 2, kSearchedRow = 1024;

// What ordered() gives of up to two largest, each by a search.
Tensor searched(const Tensor &x, int64_t axis, int64_t count) {
  Tensor order = x.dtype() == boolean ? x.to(uint8) : x.detach(), first = argmax(order, axis, true);
  if (count == 1)
    return first;
  Tensor taken = wrap(emit_iota(int64, x.shape(), axis)) == first,
         low = wrap(emit_constant(lowest(order.dtype()), order.dtype())),
         left = where(taken, low, order);
  // Where all that is left is as low as what stands for the one that is taken, the first of it.
  Tensor second = where(amax(left, axis, true) == low, argmax((!taken).to(uint8), axis, true),
                        argmax(left, axis, true));
  return cat({first, second}, axis);
}

// The element that `indices` names in each row, and its index, with or without the dim of size 1
// that they stand in.
std::pair<Tensor, Tensor> picked(const Tensor &x, int64_t axis, const Tensor &indices,
                                 bool keepdim) {
  Tensor values = gather(x, axis, indices);
  if (keepdim)
    return {values, indices};
  return {values.squeeze(axis), indices.squeeze(axis)};
}

// The size of the dim, which must have elements to choose from.
int64_t size_to_choose_from(const Tensor &x, int64_t axis) {
  const Shape &shape = x.shape();
  if (shape[axis] == 0)
    fail(ErrorKind::kShape, "dimension " + std::to_string(axis) + " of shape " + to_string(shape) +
                                " has no elements to choose from");
  return shape[axis];
}

} // namespace

Tensor argsort(const Tensor &x, int64_t dim, bool descending, Location location) {
  Session session("argsort", location);
  const TypeInfo &type = *checked(x, "x")->type;
  int64_t axis = normalize_dim_or_scalar(dim, type.ndim(), "dim");
  return type.ndim() == 0 ? zeros({}, int64) : ordered(x, axis, descending);
}

std::pair<Tensor, Tensor> sort(const Tensor &x, int64_t dim, bool descending, Location location) {
  Session session("sort", location);
  Tensor indices = argsort(x, dim, descending, location);
  return {x.ndim() == 0 ? x.clone() : gather(x, dim, indices), indices};
}

Tensor msort(const Tensor &x, Location location) {
  Session session("msort", location);
  return sort(x, 0, false, location).first;
}

std::pair<Tensor, Tensor> topk(const Tensor &x, int64_t k, int64_t dim, bool largest,
                               Location location) {
  Session session("topk", location);
  const TypeInfo &type = *checked(x, "x")->type;
  if (type.ndim() == 0 && k != 1)
    fail(ErrorKind::kValue, "k is " + std::to_string(k) +
                                "; of x, which has no dimensions, there is one element to choose");
  return along(x, dim, true, [&](const Tensor &x, int64_t axis, bool) {
    const Shape &shape = x.shape();
    if (k < 0 || k > shape[axis])
      fail(ErrorKind::kValue, "k is " + std::to_string(k) + "; dimension " + std::to_string(axis) +
                                  " of shape " + to_string(shape) + " has from 0 to " +
                                  std::to_string(shape[axis]) + " to choose");
    bool is_search = largest && k > 0 && k <= kSearched && shape[axis] <= kSearchedRow;
    Tensor indices = is_search ? searched(x, axis, k) : ordered(x, axis, largest, k);
    return std::pair(gather(x, axis, indices), indices);
  });
}

std::pair<Tensor, Tensor> kthvalue(const Tensor &x, int64_t k, int64_t dim, bool keepdim,
                                   Location location) {
  Session session("kthvalue", location);
  return along(x, dim, keepdim, [&](const Tensor &x, int64_t axis, bool keepdim) {
    int64_t size = size_to_choose_from(x, axis);
    if (k < 1 || k > size)
      fail(ErrorKind::kValue, "k is " + std::to_string(k) + "; dimension " + std::to_string(axis) +
                                  " of shape " + to_string(x.shape()) + " has from 1 to " +
                                  std::to_string(size) + " to choose from");
    return picked(x, axis, ordered(x, axis, false, k).narrow(axis, k - 1, 1), keepdim);
  });
}

std::pair<Tensor, Tensor> median(const Tensor &x, int64_t dim, bool keepdim, Location location) {
  Session session("median", location);
  return along(x, dim, keepdim, [](const Tensor &x, int64_t axis, bool keepdim) {
    int64_t middle = (size_to_choose_from(x, axis) - 1) / 2;
    Tensor indices = ordered(x, axis, false, middle + 1).narrow(axis, middle, 1);
    // NaN is the largest: the first one is argmax's.
    if (is_floating(x.dtype()))
      indices = where(any(is_nan(x), axis, true), argmax(x, axis, true), indices);
    return picked(x, axis, indices, keepdim);
  });
}

Tensor median(const Tensor &x, Location location) {
  Session session("median", location);
  if (checked(x, "x")->type->elements == 0)
    fail(ErrorKind::kShape, "x has no elements to choose from");
  return median(x.reshape({-1}), 0, false, location).first;
}

std::pair<Tensor, Tensor> mode(const Tensor &x, int64_t dim, bool keepdim, Location location) {
  Session session("mode", location);
  return along(x, dim, keepdim, [](const Tensor &x, int64_t axis, bool keepdim) {
    int64_t size = size_to_choose_from(x, axis);
    auto [values, indices] = sort(x, axis);
    // Where the run of equal elements begins that each one stands in; the longest ends first of the
    // smallest value.
    Shape row(x.shape().size(), 1), one = x.shape();
    row[static_cast<size_t>(axis)] = size;
    one[static_cast<size_t>(axis)] = 1;
    Tensor place = arange(size).reshape(row).expand(x.shape());
    Tensor begins = cat(
        {ones(one, boolean), values.narrow(axis, 1, size - 1) != values.narrow(axis, 0, size - 1)},
        axis);
    Tensor start = cummax(where(begins, place, 0), axis).first;
    return picked(x, axis, gather(indices, axis, argmax(place - start, axis, true)), keepdim);
  });
}

namespace {

// The q-th quantile of `size` elements lies between those at places low and low + 1 of their order.
struct QuantilePlace {
  int64_t low;
  double weight; // of the second one; 0: there may be none
  QuantilePlace(double q, int64_t size) {
    double at = q * static_cast<double>(size - 1);
    low = static_cast<int64_t>(std::floor(at));
    weight = at - std::floor(at);
  }
  int64_t count() const {
    return weight > 0 ? 2 : 1;
  }
  // Of the elements at its places.
  Tensor between(const Tensor &elements, int64_t axis) const {
    Tensor below = elements.narrow(axis, 0, 1);
    if (weight == 0)
      return below;
    Tensor above = elements.narrow(axis, 1, 1), step = above - below;
    return weight < 0.5 ? below + weight * step : above - (1 - weight) * step; // exact at both ends
  }
};

// For up to so many quantiles each one's places are looked for, which takes an eighth of a sort.
constexpr size_t kFewQuantiles = 4;

std::vector<Tensor> quantiles(const Tensor &x, const std::vector<double> &q,
                              std::optional<int64_t> dim, bool keepdim) {
  DType dtype = floating_only(x).dtype();
  for (double one : q)
    if (!(one >= 0 && one <= 1))
      fail(ErrorKind::kValue, "q is " + std::to_string(one) + "; it must be in [0, 1]");
  Shape kept = x.shape();
  Tensor rows = x;
  int64_t axis = dim ? normalize_dim_or_scalar(*dim, x.ndim(), "dim") : 0;
  if (!dim || kept.empty()) {
    kept.assign(kept.size(), 1);
    rows = x.reshape({-1});
  } else {
    kept[static_cast<size_t>(axis)] = 1;
  }
  rows = rows.to(computing_dtype(dtype));
  int64_t size = size_to_choose_from(rows, axis);
  Tensor in_order = q.size() > kFewQuantiles ? sort(rows, axis).first : Tensor(),
         has_nan = any(is_nan(rows), axis, true);
  std::vector<Tensor> results;
  for (double one : q) {
    QuantilePlace place(one, size);
    Tensor elements = in_order.defined()
                          ? in_order.narrow(axis, place.low, place.count())
                          : gather(rows, axis,
                                   ordered(rows, axis, false, place.low + place.count())
                                       .narrow(axis, place.low, place.count()));
    Tensor result =
        where(has_nan, std::numeric_limits<double>::quiet_NaN(), place.between(elements, axis))
            .to(dtype);
    results.push_back(keepdim ? result.reshape(kept) : result.squeeze(axis));
  }
  return results;
}

} // namespace

Tensor quantile(const Tensor &x, double q, std::optional<int64_t> dim, bool keepdim,
                Location location) {
  Session session("quantile", location);
  return quantiles(x, {q}, dim, keepdim)[0];
}

Tensor quantile(const Tensor &x, const std::vector<double> &q, std::optional<int64_t> dim,
                bool keepdim, Location location) {
  Session session("quantile", location);
  if (q.empty())
    fail(ErrorKind::kValue, "q is empty; give at least one number in [0, 1]");
  return stack(quantiles(x, q, dim, keepdim));
}

Tensor randperm(int64_t n, Generator &generator, Location location) {
  Session session("randperm", location);
  if (n < 0)
    fail(ErrorKind::kValue, "n is " + std::to_string(n) + "; it must not be negative");
  return argsort(rand({n}, generator, float64));
}

} // namespace weft
