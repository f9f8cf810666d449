// Inverse trigonometric and hyperbolic functions, of atan2, log1p and roots, which keep them
// accurate where a plain formula cancels. Where a formula has a pole that is not taken, it is
// computed from another number: a masked infinity would come back as NaN from the derivative.
#include <numbers>

#include "frontend/ops/promotion.h"
#include "frontend/tensor/impl.h"
#include "weft/composites.h"

namespace weft {

using namespace recorder;

namespace {

// f(x), in the dtype in which functions are computed.
template <typename F> Tensor computed(const Tensor &x, F f) {
  Var given = floating_operand(x);
  return wrap(rounded(read(f(wrap(widened(given))), "x"), given.dtype()));
}

// Beyond it, 1 is nothing beside the square, to a quarter of a unit in the last place.
double large(DType dtype) {
  return dtype == DType::kFloat64 ? 0x1p28 : 0x1p13;
}

} // namespace

namespace {

// sqrt(1 - x^2). The factors are exact near the ends of [-1, 1], where 1 - x^2 is not; roots of
// each, as a product under the root would have infinity times 0 in its derivative at the ends.
Tensor opposite(const Tensor &x) {
  return sqrt(1.0 - x) * sqrt(1.0 + x);
}

} // namespace

Tensor asin(const Tensor &x, Location location) {
  Session session("asin", location);
  return computed(x, [](const Tensor &y) { return atan2(y, opposite(y)); });
}

Tensor acos(const Tensor &x, Location location) {
  Session session("acos", location);
  return computed(x, [](const Tensor &y) { return atan2(opposite(y), y); });
}

Tensor atan(const Tensor &x, Location location) {
  Session session("atan", location);
  return computed(x, [](const Tensor &y) { return atan2(y, 1.0); });
}

// log(a + sqrt(a^2 + 1)) = log1p(a + a^2 / (1 + sqrt(a^2 + 1))) for a = |x|, with the sign of x.
Tensor asinh(const Tensor &x, Location location) {
  Session session("asinh", location);
  return computed(x, [](const Tensor &y) {
    // The sign, as a zero keeps its own; all derivatives go through the formula at 0 as well.
    Tensor negative = signbit(y), a = where(negative, -y, y), far = a > large(y.dtype());
    Tensor near = where(far, 1.0, a), square = near * near;
    Tensor result = where(far, log(where(far, a, 1.0)) + std::numbers::ln2,
                          log1p(near + square / (1.0 + sqrt(square + 1.0))));
    return where(negative, -result, result);
  });
}

// log(x + sqrt(x^2 - 1)) = log1p(t + sqrt(t (t + 2))) for t = x - 1, with roots of each factor,
// which are NaN below 0, whatever the product is.
Tensor acosh(const Tensor &x, Location location) {
  Session session("acosh", location);
  return computed(x, [](const Tensor &y) {
    Tensor far = y > large(y.dtype()), t = where(far, 2.0, y) - 1.0;
    return where(far, log(where(far, y, 1.0)) + std::numbers::ln2,
                 log1p(t + sqrt(t) * sqrt(t + 2.0)));
  });
}

Tensor atanh(const Tensor &x, Location location) {
  Session session("atanh", location);
  return computed(x, [](const Tensor &y) { return 0.5 * (log1p(y) - log1p(-y)); });
}

} // namespace weft
