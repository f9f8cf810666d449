// Counting and search: histograms are scatters, a search is log2(n) gathers, and the values of a
// tensor once each come from its order.
#include <cmath>
#include <limits>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/recorder.h"
#include "frontend/recorder/requests/requests.h"
#include "frontend/tensor/impl.h"
#include "weft/autograd.h"
#include "weft/composites.h"

namespace weft {

using namespace recorder;

Tensor bincount(const Tensor &x, const Tensor &weights, int64_t minlength, Location location) {
  Session session("bincount", location);
  const TypeInfo &type = *checked(x, "x")->type;
  if (type.ndim() != 1 || !is_integer(type.dtype))
    fail(ErrorKind::kShape, "x is " + describe(type) + "; it must be a vector of integers");
  if (minlength < 0)
    fail(ErrorKind::kValue,
         "minlength is " + std::to_string(minlength) + "; it must not be negative");
  DType dtype = int64;
  if (weights.defined()) {
    const TypeInfo &given = *checked(weights, "weights")->type;
    if (given.dims != type.dims)
      fail(ErrorKind::kShape, "weights have shape " + to_string(given.dims) + ", x has shape " +
                                  to_string(type.dims) + ": they must be equal");
    dtype = is_floating(given.dtype) ? given.dtype : float64;
  }
  int64_t bins = minlength;
  if (type.elements > 0) {
    NoGrad no_grad;
    Tensor extent = stack({min(x), max(x)}).to(int64);
    Value *value = read(extent, "x").value.get();
    submit({&value, 1}, {CutReason::kMask, location}); // it decides a shape
    std::vector<int64_t> range = extent.to_vector<int64_t>(location);
    if (range[0] < 0)
      fail(ErrorKind::kValue,
           "x has the element " + std::to_string(range[0]) + "; none may be negative");
    if (range[1] == std::numeric_limits<int64_t>::max())
      fail(ErrorKind::kValue,
           "x has the largest int64, which needs one bin more than an int64 counts");
    bins = std::max(bins, range[1] + 1);
  }
  Tensor terms = weights.defined() ? weights.to(dtype) : ones(type.dims, dtype);
  return scatter_add(zeros({bins}, dtype), 0, x.to(int64), terms);
}

Tensor histc(const Tensor &x, int64_t bins, double low, double high, Location location) {
  Session session("histc", location);
  Var given = floating_only(x);
  if (bins < 1)
    fail(ErrorKind::kValue, "bins is " + std::to_string(bins) + "; it must be positive");
  if (!(low <= high) || std::isinf(low) || std::isinf(high))
    fail(ErrorKind::kValue, "low " + std::to_string(low) + " must be finite and not above high " +
                                std::to_string(high));
  DType wide = computing_dtype(given.dtype());
  Tensor values = x.detach().to(wide).reshape({-1}), first = scalar(low, wide),
         last = scalar(high, wide);
  Tensor looked_at; // 0, once the range is known
  if (low == high && given.type().elements > 0) {
    first = min(values);
    last = max(values);
    Tensor beyond = !(is_finite(first) & is_finite(last));
    looked_at = wrap(emit_check_index(read(beyond.to(int64), "x"), 1,
                                      "histc: x has an element that is not finite, and so no "
                                      "range; give low and high"));
  }
  // A range without extent is widened by 1 on both sides.
  Tensor empty = first == last, start = where(empty, first - 1, first),
         end = where(empty, last + 1, last);
  Tensor inside = (values >= start) & (values <= end);
  Tensor bin = floor((where(inside, values, start) - start) / (end - start) * bins)
                   .to(int64)
                   .clamp(0, bins - 1);
  if (looked_at.defined())
    bin = bin + looked_at;
  return scatter_add(zeros({bins}, wide), 0, bin, inside.to(wide)).to(given.dtype());
}

namespace {

// Where each value would stand; before(element, value) says which elements of `sorted`, which has
// at least one dim, come first.
template <typename Before>
Tensor searched(const Tensor &sorted, const Tensor &values, Before before) {
  const Shape &rows = sorted.shape();
  int64_t n = rows.back();
  Tensor found = zeros(values.shape(), int64);
  if (n == 0)
    return found;
  int64_t step = 1;
  while (step <= n / 2)
    step *= 2;
  // `found` elements are known to stand before the value; each round asks the one that is `step`
  // further.
  for (; step > 0; step /= 2) {
    Tensor next = found + step, at = minimum(next, n) - 1;
    Tensor element = rows.size() == 1 ? index_select(sorted, 0, at) : gather(sorted, -1, at);
    found = where(before(element, values) & (next <= n), next, found);
  }
  return found;
}

// As searchsorted.
Tensor searched(const Tensor &sorted, const Tensor &values, bool right) {
  return searched(sorted, values, [&](const Tensor &element, const Tensor &value) {
    return logical_not(right ? element > value : element >= value);
  });
}

} // namespace

Tensor searchsorted(const Tensor &sorted, const Tensor &values, bool right, Location location) {
  Session session("searchsorted", location);
  const TypeInfo &type = *checked(sorted, "sorted")->type,
                 &asked = *checked(values, "values")->type;
  bool fits = type.ndim() == 1;
  if (type.ndim() > 1 && type.ndim() == asked.ndim())
    fits = Shape(type.dims.begin(), type.dims.end() - 1) ==
           Shape(asked.dims.begin(), asked.dims.end() - 1);
  if (!fits)
    fail(ErrorKind::kShape,
         "sorted has shape " + to_string(type.dims) + ", values have shape " +
             to_string(asked.dims) +
             ": sorted must be a vector, or have the leading dimensions of values");
  return searched(sorted, values, right);
}

Tensor bucketize(const Tensor &x, const Tensor &boundaries, bool right, Location location) {
  Session session("bucketize", location);
  if (const TypeInfo &type = *checked(boundaries, "boundaries")->type; type.ndim() != 1)
    fail(ErrorKind::kShape,
         "boundaries have shape " + to_string(type.dims) + "; they must be a vector");
  checked(x, "x");
  return searched(boundaries, x, right);
}

Tensor isin(const Tensor &x, const Tensor &elements, Location location) {
  Session session("isin", location);
  checked(x, "x");
  int64_t n = checked(elements, "elements")->type->elements;
  if (n == 0)
    return zeros(x.shape(), boolean);
  Tensor sorted = sort(elements.detach().reshape({-1})).first;
  // NaNs, which stand last and equal nothing, are not passed.
  Tensor place = searched(
      sorted, x, [](const Tensor &element, const Tensor &value) { return element < value; });
  Tensor at = minimum(place, n - 1);
  return index_select(sorted, 0, at) == x;
}

namespace {

// The first of each run of equal elements in x, a vector; the number of each element's run; and how
// long the runs are.
UniqueResult runs_of(const Tensor &x, Location location) {
  int64_t n = x.shape()[0];
  if (n == 0)
    return {x, zeros({0}, int64), zeros({0}, int64)};
  Tensor begins = cat({ones({1}, boolean), x.narrow(0, 1, n - 1) != x.narrow(0, 0, n - 1)});
  Tensor starts = nonzero(begins, location).reshape({-1});
  Tensor ends = cat({starts.narrow(0, 1, starts.shape()[0] - 1), full({1}, n)});
  return {index_select(x, 0, starts), cumsum(begins, 0) - 1, ends - starts};
}

} // namespace

Tensor repeat_interleave(const Tensor &x, const Tensor &counts, std::optional<int64_t> dim,
                         std::optional<int64_t> output_size, Location location) {
  Session session("repeat_interleave", location);
  Tensor rows = dim && checked(x, "x")->type->ndim() > 0 ? x : x.reshape({-1});
  int64_t axis = dim ? normalize_dim_or_scalar(*dim, x.ndim(), "dim") : 0, n = rows.size(axis);
  Tensor each = wrap(index_operand(counts, "counts")).to(int64);
  if (each.ndim() == 0 || (each.ndim() == 1 && each.size(0) == 1))
    each = each.reshape({1}).expand({n});
  if (each.shape() != Shape{n})
    fail(ErrorKind::kShape, "counts has shape " + to_string(counts.shape()) + "; along dimension " +
                                std::to_string(axis) + " of shape " + to_string(rows.shape()) +
                                " there are " + std::to_string(n) + " elements to repeat");
  // One that is negative makes the sum less than any.
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  Tensor ends = cumsum(each, 0), looked_at; // 0, once the sum is known
  int64_t size = 0;
  if (output_size) {
    size = *output_size;
    if (n > 0)
      looked_at = wrap(emit_check_index(
          read(((ends.select(0, n - 1) != size) | (amin(each, 0) < 0)).to(int64), "counts"), 1,
          "repeat_interleave: counts must not be negative, and add up to output_size"));
  } else if (n > 0) {
    NoGrad no_grad;
    size = where(amin(each, 0) < 0, kLeast, ends.select(0, n - 1)).item<int64_t>(location);
  }
  if (size < 0)
    fail(ErrorKind::kValue, size == kLeast ? "counts has a negative number"
                                           : "output_size is " + std::to_string(size) +
                                                 "; it must not be negative");
  // The element in whose part of the result each place lies. Beyond the last part there is none.
  Tensor element = searchsorted(ends, arange(size), /*right=*/true);
  return index_select(rows, axis, looked_at.defined() ? element + looked_at : element);
}

UniqueResult unique(const Tensor &x, Location location) {
  Session session("unique", location);
  checked(x, "x");
  Tensor flat = x.reshape({-1}), order = argsort(flat);
  UniqueResult result = runs_of(gather(flat, 0, order), location);
  result.inverse = scatter(zeros_like(order), 0, order, result.inverse).reshape(x.shape());
  return result;
}

UniqueResult unique_consecutive(const Tensor &x, Location location) {
  Session session("unique_consecutive", location);
  checked(x, "x");
  UniqueResult result = runs_of(x.reshape({-1}), location);
  result.inverse = result.inverse.reshape(x.shape());
  return result;
}

} // namespace weft
