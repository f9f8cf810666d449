// Elementwise functions and functions along dims that are made of others.
#include "weft/composites.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/tensor/autocast.h"
#include "frontend/tensor/impl.h"
#include "weft/autograd.h"

namespace weft {

using namespace recorder;

namespace {

// x in the dtype that a function of several ops computes in, and back.
Tensor computed(const Tensor &x) {
  return wrap(widened(floating_operand(x)));
}
Tensor in_dtype_of(const Tensor &y, const Tensor &x) {
  return is_floating(x.dtype()) ? y.to(call_dtype(x.dtype())) : y;
}

// Two of one shape, in the dtype that a function of both computes in, and its result's dtype.
struct Both {
  Tensor x, y;
  DType result;
};
Both computed(const Tensor &x, const Tensor &y) {
  Operands both = promote(x, y, /*floating=*/true);
  return {wrap(widened(both.x)), wrap(widened(both.y)), both.result};
}

} // namespace

namespace recorder {

Tensor smooth_root(const Tensor &x) {
  Tensor zero = x == 0;
  return where(zero, 0.0, sqrt(where(zero, 1.0, x)));
}

} // namespace recorder

Tensor reciprocal(const Tensor &x, Location location) {
  Session session("reciprocal", location);
  return div(1, x, location);
}

Tensor log2(const Tensor &x, Location location) {
  Session session("log2", location);
  return in_dtype_of(log(computed(x)) / std::numbers::ln2, x);
}

Tensor log10(const Tensor &x, Location location) {
  Session session("log10", location);
  return in_dtype_of(log(computed(x)) / std::numbers::ln10, x);
}

Tensor tan(const Tensor &x, Location location) {
  Session session("tan", location);
  Tensor angle = computed(x);
  return in_dtype_of(sin(angle) / cos(angle), x);
}

namespace {

// From here on one of exp(x) and exp(-x) is nothing beside the other, even in float64.
constexpr double kFar = 20;

// exp(x) / 2, which overflows where that does and no sooner, and so does its derivative: less 1
// exp(x) does not yet.
Tensor half_exp(const Tensor &x) {
  return exp(x - 1) * (std::numbers::e / 2);
}

// sinh of what is not far: expm1 is exact near 0, where a difference of exponentials is not.
Tensor near_sinh(const Tensor &x) {
  return 0.5 * (expm1(x) - expm1(-x));
}

} // namespace

Tensor sinh(const Tensor &x, Location location) {
  Session session("sinh", location);
  Tensor y = computed(x), size = abs(y), far = size > kFar, near = where(far, 0.0, y);
  Tensor large = half_exp(where(far, size, kFar));
  return in_dtype_of(where(far, where(y < 0, -large, large), near_sinh(near)), x);
}

Tensor cosh(const Tensor &x, Location location) {
  Session session("cosh", location);
  Tensor y = computed(x), size = abs(y), far = size > kFar, near = where(far, 0.0, y);
  // By the half near 0, where the derivative of the sum is a difference that cancels.
  Tensor root = near_sinh(0.5 * where(size < 1, y, 0.0));
  Tensor middle = where(size < 1, 1 + 2 * square(root), 0.5 * (exp(near) + exp(-near)));
  return in_dtype_of(where(far, half_exp(where(far, size, kFar)), middle), x);
}

Tensor trunc(const Tensor &x, Location location) {
  Session session("trunc", location);
  return is_floating(checked(x, "x")->type->dtype) ? where(x < 0, ceil(x), floor(x)) : x.clone();
}

Tensor floor_divide(TensorArg x, TensorArg y, Location location) {
  Session session("floor_divide", location);
  Operands both = promote(x, y, /*floating=*/false, 0, /*wide=*/true);
  if (both.x.dtype() == DType::kBool)
    fail(ErrorKind::kDType, "x and y are bool; convert one with to() first");
  Var dividend = widened(both.x), divisor = widened(both.y);
  Tensor a = wrap(dividend), b = wrap(divisor), quotient = wrap(emit_div(dividend, divisor));
  Tensor opposite = (a < 0) != (b < 0);
  if (!is_floating(both.result)) // rounded towards zero, and 0 by zero, as the remainder is
    return where(opposite & (remainder(a, b) != 0), quotient - 1, quotient);
  // Of sizes: what the remainder leaves is a multiple of the divisor, up to rounding.
  Tensor size = abs(a), by = abs(b), rest = remainder(size, by), whole = round((size - rest) / by);
  Tensor result = where(opposite, -where(rest != 0, whole + 1, whole), whole);
  // A zero has the quotient's sign; by 0 the quotient is an infinity or NaN.
  return where(b == 0, quotient, where(result == 0, 0 * quotient, result)).to(both.result);
}

Tensor lerp(const Tensor &x, const Tensor &y, TensorArg weight, Location location) {
  Session session("lerp", location);
  for (const auto &[tensor, argument] : {std::pair{&x, "x"}, std::pair{&y, "y"}})
    if (checked(*tensor, argument)->type->dtype == DType::kBool)
      fail(ErrorKind::kDType,
           std::string(argument) +
               " is bool, which has nothing between; convert it with to() first");
  const TensorArg args[] = {TensorArg(x, location), TensorArg(y, location), weight};
  DType dtype = result_type(args);
  if (!is_floating(dtype))
    return x + weight * (y - x);
  auto wide = [&](const TensorArg &arg, const char *name) {
    return wrap(operand(arg, computing_dtype(dtype), name));
  };
  Tensor start = wide(args[0], "x"), end = wide(args[1], "y"), share = wide(weight, "weight");
  // From the nearer end: y itself at 1, where rounding would leave x + (y - x) beside it.
  Tensor near = share < 0.5;
  Tensor result = where(near, start, end) + where(near, share, share - 1) * (end - start);
  return result.to(dtype);
}

Tensor logaddexp(const Tensor &x, const Tensor &y, Location location) {
  Session session("logaddexp", location);
  auto [a, b, dtype] = computed(x, y);
  // One of two equal numbers is the higher one, so that derivatives of any order are those of
  // softplus. An infinity is the result by itself; two have no difference.
  Tensor ordered = a >= b, high = where(ordered, a, b), low = where(ordered, b, a);
  Tensor result = high + softplus(where(is_inf(high) & (low <= high), 0.0, low - high));
  return result.to(dtype);
}

Tensor is_close(const Tensor &x, const Tensor &y, double rtol, double atol, bool equal_nan,
                Location location) {
  Session session("is_close", location);
  checked(x, "x");
  checked(y, "y");
  Tensor close = x == y;
  if (!is_floating(x.dtype()) && !is_floating(y.dtype()) && rtol == 0 && atol == 0)
    return close;
  Tensor a = computed(x), b = computed(y);
  close = close | (is_finite(b) & (abs(a - b) <= atol + rtol * abs(b)));
  return equal_nan ? close | (is_nan(a) & is_nan(b)) : close;
}

bool all_close(const Tensor &x, const Tensor &y, double rtol, double atol, bool equal_nan,
               Location location) {
  CallerScope scope(location);
  NoGrad no_grad;
  return all(is_close(x, y, rtol, atol, equal_nan, location)).item<bool>(location);
}

bool equal(const Tensor &x, const Tensor &y, Location location) {
  CallerScope scope(location);
  NoGrad no_grad;
  return x.shape() == y.shape() && all(x == y).item<bool>(location);
}

Tensor logsumexp(const Tensor &x, Dims dims, bool keepdim, Location location) {
  Session session("logsumexp", location);
  Tensor input = computed(x);
  if (input.size() == 0)
    return in_dtype_of(log(sum(exp(input), dims, keepdim)),
                       x); // no element is the largest; the sum of none is 0
  Tensor most = max(input, dims, true).detach();
  most =
      where(is_finite(most), most, 0.0); // exp(inf - 0) is what it should be, exp(inf - inf) is not
  Tensor result = log(sum(exp(input - most), dims, true)) + most;
  if (!keepdim)
    result = result.reshape(sum(input, dims).shape());
  return in_dtype_of(result, x);
}

Tensor std(const Tensor &x, Dims dims, int64_t correction, bool keepdim, Location location) {
  Session session("std", location);
  if (DType dtype = checked(x, "x")->type->dtype; !is_floating(dtype))
    fail(ErrorKind::kDType,
         std::string("x is ") + name(dtype) + "; it must be floating: convert with to(float32)");
  return in_dtype_of(smooth_root(var(computed(x), std::move(dims), correction, keepdim)), x);
}

Tensor normalize(const Tensor &x, int64_t dim, double eps, Location location) {
  Session session("normalize", location);
  Tensor input = computed(x);
  return in_dtype_of(input / clamp(norm(input, 2, dim, true), eps), x);
}

Tensor cosine_similarity(const Tensor &x, const Tensor &y, int64_t dim, double eps,
                         Location location) {
  Session session("cosine_similarity", location);
  auto [a, b, dtype] = computed(x, y); // of one shape, before their norms along dim are taken
  Tensor result = sum(a * b, dim) / (clamp(norm(a, 2, dim), eps) * clamp(norm(b, 2, dim), eps));
  return result.to(dtype);
}

Tensor count_nonzero(const Tensor &x, Dims dims, Location location) {
  Session session("count_nonzero", location);
  return sum(checked(x, "x")->type->dtype == boolean ? x : x != 0, std::move(dims));
}

Tensor nansum(const Tensor &x, Dims dims, bool keepdim, Location location) {
  Session session("nansum", location);
  return sum(is_floating(checked(x, "x")->type->dtype) ? where(is_nan(x), 0, x) : x,
             std::move(dims), keepdim);
}

Tensor nanmean(const Tensor &x, Dims dims, bool keepdim, Location location) {
  Session session("nanmean", location);
  Tensor input = wrap(widened(floating_only(x))), none = is_nan(input);
  return in_dtype_of(sum(where(none, 0, input), dims, keepdim) /
                         sum(where(none, 0, ones_like(input)), dims, keepdim),
                     x);
}

namespace {

// The p-norm of floating x over dims. Roots and fractional powers have no derivative at 0: there it
// is that of a constant.
Tensor p_norm(const Tensor &x, double p, const Dims &dims, bool keepdim) {
  if (std::isnan(p))
    fail(ErrorKind::kValue, "p is NaN");
  if (p == 2)
    return smooth_root(sum(square(x), dims, keepdim));
  Tensor size = abs(x);
  if (std::isinf(p))
    return p > 0 ? max(size, dims, keepdim) : min(size, dims, keepdim);
  if (p == 0) { // a count, whose derivative is 0
    Var given = read(x, "x"), total = read(sum((x != 0).to(x.dtype()), dims, keepdim), "x");
    const Var *of[] = {&given};
    return wrap(with_flat_history(total, of));
  }
  if (p == 1)
    return sum(size, dims, keepdim);
  if (p < 0 && x.numel() == 0) // there is no least of nothing
    return min(size, dims, keepdim);
  Tensor terms = pow(where(size == 0, 1.0, size), p);
  terms = where(size == 0, p > 0 ? 0.0 : std::numeric_limits<double>::infinity(), terms);
  Tensor total = sum(terms, dims, keepdim), none = total == 0;
  return where(none, 0.0, pow(where(none, 1.0, total), 1 / p));
}

} // namespace

Tensor vector_norm(const Tensor &x, NormOrder p, Dims dims, bool keepdim, Location location) {
  Session session("vector_norm", location);
  return in_dtype_of(p_norm(wrap(widened(floating_only(x))), p.value, dims, keepdim), x);
}

Tensor norm(const Tensor &x, NormOrder p, Dims dims, bool keepdim, Location location) {
  Session session("norm", location);
  return vector_norm(x, p, std::move(dims), keepdim);
}

Tensor cdist(const Tensor &x, const Tensor &y, double p, Location location) {
  Session session("cdist", location);
  const TypeInfo &left = *checked(x, "x")->type, &right = *checked(y, "y")->type;
  if (left.ndim() < 2 || right.ndim() < 2 || left.dims.back() != right.dims.back())
    fail(ErrorKind::kShape, "x has shape " + to_string(left.dims) + ", y has shape " +
                                to_string(right.dims) + ": they must be [.., n, d] and [.., m, d]");
  if (!(p >= 0))
    fail(ErrorKind::kValue, "p is " + std::to_string(p) + "; it must not be negative");
  auto [a, b, dtype] = computed(x.unsqueeze(-2), y.unsqueeze(-3));
  // Of no elements at all the distance is 0, and there is no largest.
  if (left.dims.back() == 0)
    return sum(a - b, -1).to(dtype);
  return p_norm(a - b, p, -1, false).to(dtype);
}

Tensor pairwise_distance(const Tensor &x, const Tensor &y, double p, double eps, bool keepdim,
                         Location location) {
  Session session("pairwise_distance", location);
  if (checked(x, "x")->type->ndim() == 0 || checked(y, "y")->type->ndim() == 0)
    fail(ErrorKind::kShape, "x and y must have a dimension to measure along");
  auto [a, b, dtype] = computed(x, y);
  return p_norm(a - b + eps, p, -1, keepdim).to(dtype);
}

} // namespace weft
