// Elementwise functions and functions along dims that are made of others.
#include "weft/composites.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/emit.h"
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

Tensor sinh(const Tensor &x, Location location) {
  Session session("sinh", location);
  Tensor y = computed(x), size = abs(y), far = size > 20.0, near = where(far, 0.0, y);
  // expm1 is exact near 0, where a difference of exponentials is not. Far from it one of them is
  // nothing beside the other, which as a product overflows where the result does and no sooner.
  Tensor grown = exp(0.5 * where(far, size, 0.0)), large = 0.5 * grown * grown;
  return in_dtype_of(where(far, where(y < 0, -large, large), 0.5 * (expm1(near) - expm1(-near))),
                     x);
}

Tensor cosh(const Tensor &x, Location location) {
  Session session("cosh", location);
  Tensor y = computed(x);
  Tensor up = exp(0.5 * y), down = exp(-0.5 * y);
  return in_dtype_of(0.5 * up * up + 0.5 * down * down, x); // overflows where the result does
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
  Tensor a = wrap(dividend), b = wrap(divisor),
         quotient = wrap(emit_binary(Binary::kDiv, dividend, divisor));
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
  return x + weight * (y - x);
}

Tensor logaddexp(const Tensor &x, const Tensor &y, Location location) {
  Session session("logaddexp", location);
  Tensor a = computed(x), b = computed(y);
  // One of two equal numbers is the higher one, so that derivatives of any order are those of
  // softplus. An infinity is the result by itself; two have no difference.
  Tensor ordered = a >= b, high = where(ordered, a, b), low = where(ordered, b, a);
  Tensor result = high + softplus(where(is_inf(high) & (low <= high), 0.0, low - high));
  return x.dtype() == y.dtype() ? in_dtype_of(result, x) : result;
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
  Tensor a = computed(x), b = computed(y);
  Tensor result = sum(a * b, dim) / (clamp(norm(a, 2, dim), eps) * clamp(norm(b, 2, dim), eps));
  return x.dtype() == y.dtype() ? in_dtype_of(result, x) : result;
}

Tensor cdist(const Tensor &x, const Tensor &y, Location location) {
  Session session("cdist", location);
  const TypeInfo &left = *checked(x, "x")->type, &right = *checked(y, "y")->type;
  if (left.ndim() < 2 || right.ndim() < 2 || left.dims.back() != right.dims.back())
    fail(ErrorKind::kShape, "x has shape " + to_string(left.dims) + ", y has shape " +
                                to_string(right.dims) + ": they must be [.., n, d] and [.., m, d]");
  Tensor squares = square(computed(x).unsqueeze(-2) - computed(y).unsqueeze(-3)).sum(-1);
  Tensor result = smooth_root(squares);
  return x.dtype() == y.dtype() ? in_dtype_of(result, x) : result;
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

Tensor pairwise_distance(const Tensor &x, const Tensor &y, double p, double eps, bool keepdim,
                         Location location) {
  Session session("pairwise_distance", location);
  if (checked(x, "x")->type->ndim() == 0 || checked(y, "y")->type->ndim() == 0)
    fail(ErrorKind::kShape, "x and y must have a dimension to measure along");
  Tensor result = p_norm(computed(x) - computed(y) + eps, p, -1, keepdim);
  return x.dtype() == y.dtype() ? in_dtype_of(result, x) : result;
}

} // namespace weft
