// Elementwise functions of one, two and three numbers that are made of others.
#include <cmath>
#include <limits>
#include <numbers>

#include "frontend/ops/promotion.h"
#include "frontend/tensor/impl.h"
#include "weft/autograd.h"
#include "weft/composites.h"

namespace weft {

using namespace recorder;

namespace {

// f(x), in the dtype in which functions are computed.
template <typename F> Tensor computed(const Tensor &x, F f) {
  Var given = floating_operand(x);
  return wrap(rounded(read(f(wrap(widened(given))), "x"), given.dtype()));
}

// The same of two operands. floating: integers become float32.
template <typename F> Tensor computed(const TensorArg &x, const TensorArg &y, bool floating, F f) {
  Operands both = promote(x, y, floating, 0, /*wide=*/true);
  if (both.x.dtype() == DType::kBool)
    fail(ErrorKind::kDType, "x and y are bool; convert one with to() first");
  return wrap(rounded(read(f(wrap(widened(both.x)), wrap(widened(both.y))), "x"), both.result));
}

bool are_bools(const TensorArg &x, const TensorArg &y) {
  const TensorArg args[] = {x, y};
  return result_type(args) == DType::kBool;
}

// Whether the sign bit is set, also of a zero.
Tensor is_negative(const Tensor &x) {
  if (!is_floating(x.dtype()))
    return x < 0;
  return (x < 0) | ((x == 0) & (1.0 / x < 0));
}

} // namespace

Tensor logit(const Tensor &x, std::optional<double> eps, Location location) {
  Session session("logit", location);
  return computed(x, [&](const Tensor &y) {
    // Outside of [0, 1] the derivative is NaN, as the value is; 1 / y + 1 / (1 - y) is a number.
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    Tensor p = eps ? clamp(y, *eps, 1 - *eps) : y * where((y < 0) | (y > 1), kNaN, 1.0);
    return log(p) - log1p(-p);
  });
}

Tensor polygamma(int64_t n, const Tensor &x, Location location) {
  Session session("polygamma", location);
  if (n < 0)
    fail(ErrorKind::kValue, "n is " + std::to_string(n) + "; it must not be negative");
  return wrap(emit_polygamma(floating_operand(x), n));
}

Tensor digamma(const Tensor &x, Location location) {
  Session session("digamma", location);
  return wrap(emit_polygamma(floating_operand(x), 0));
}

Tensor rad2deg(const Tensor &x, Location location) {
  Session session("rad2deg", location);
  return computed(x, [](const Tensor &y) { return y * (180 / std::numbers::pi); });
}

Tensor deg2rad(const Tensor &x, Location location) {
  Session session("deg2rad", location);
  return computed(x, [](const Tensor &y) { return y * (std::numbers::pi / 180); });
}

Tensor frac(const Tensor &x, Location location) {
  Session session("frac", location);
  return x - trunc(x);
}

Tensor hypot(TensorArg x, TensorArg y, Location location) {
  Session session("hypot", location);
  return computed(x, y, /*floating=*/true, [](const Tensor &a, const Tensor &b) {
    // The larger one, by which both are divided; no part of the derivative. An infinity is larger
    // than NaN.
    Tensor infinite = is_inf(a) | is_inf(b), size = maximum(abs(a), abs(b)).detach();
    size = where((size == 0) | infinite, 1.0, size);
    return where(infinite, std::numeric_limits<double>::infinity(),
                 size * smooth_root(square(a / size) + square(b / size)));
  });
}

Tensor fmod(TensorArg x, TensorArg y, Location location) {
  Session session("fmod", location);
  return computed(x, y, /*floating=*/false, [](const Tensor &a, const Tensor &b) {
    if (!is_floating(a.dtype())) {
      Tensor floored = remainder(a, b);
      return where((floored != 0) & ((floored < 0) != (a < 0)), floored - b, floored);
    }
    // Of sizes, whose remainder is exact.
    Tensor negative = is_negative(a), rest = remainder(where(negative, -a, a), abs(b));
    return where(negative, -rest, rest);
  });
}

Tensor copysign(TensorArg x, TensorArg y, Location location) {
  Session session("copysign", location);
  return computed(x, y, /*floating=*/true, [](const Tensor &a, const Tensor &b) {
    Tensor size = abs(a);
    return where(is_negative(b), -size, size);
  });
}

Tensor xlogy(TensorArg x, TensorArg y, Location location) {
  Session session("xlogy", location);
  return computed(x, y, /*floating=*/true, [](const Tensor &a, const Tensor &b) {
    // Where log(y) is an infinity or NaN, 0 times it is to be 0.
    return a * log(where((a == 0) & ((b <= 0) | is_inf(b)), 1.0, b));
  });
}

Tensor signbit(const Tensor &x, Location location) {
  Session session("signbit", location);
  checked(x, "x");
  return is_negative(x);
}

Tensor heaviside(TensorArg x, TensorArg at_zero, Location location) {
  Session session("heaviside", location);
  if (are_bools(x, at_zero))
    return maximum(x, at_zero);
  return computed(x, at_zero, /*floating=*/false, [](const Tensor &a, const Tensor &b) {
    return where(a == 0, b, (a > 0).to(a.dtype()));
  });
}

Tensor sinc(const Tensor &x, Location location) {
  Session session("sinc", location);
  return computed(x, [](const Tensor &y) {
    // Near 0 Taylor's series, whose derivatives neither cancel nor divide by 0. What it leaves out
    // is 0.5^14 / 15!, below a unit in the last place of float64.
    Tensor angle = y * std::numbers::pi, is_near = abs(angle) < 0.5;
    Tensor near = where(is_near, angle, 0.0), divisor = where(is_near, 1.0, angle);
    Tensor square = near * near, series = 1.0 - square / (12.0 * 13);
    for (double n = 10; n > 0; n -= 2)
      series = 1.0 - square * series / (n * (n + 1));
    return where(is_near, series, sin(divisor) / divisor);
  });
}

// Of equal ones x is chosen, and has the derivative, as in PyTorch.
Tensor fmax(TensorArg x, TensorArg y, Location location) {
  Session session("fmax", location);
  if (are_bools(x, y)) // which none is NaN of
    return maximum(x, y);
  return computed(x, y, /*floating=*/false, [](const Tensor &a, const Tensor &b) {
    return where((a >= b) | is_nan(b), a, b);
  });
}

Tensor fmin(TensorArg x, TensorArg y, Location location) {
  Session session("fmin", location);
  if (are_bools(x, y))
    return minimum(x, y);
  return computed(x, y, /*floating=*/false, [](const Tensor &a, const Tensor &b) {
    return where((a <= b) | is_nan(b), a, b);
  });
}

Tensor logspace(double start, double stop, int64_t steps, double base, DType dtype,
                Location location) {
  Session session("logspace", location);
  if (steps < 0)
    fail(ErrorKind::kValue, "steps is " + std::to_string(steps) + "; it must not be negative");
  return pow(base, linspace(start, stop, steps, float64)).to(dtype);
}

Tensor nan_to_num(const Tensor &x, double nan, std::optional<double> posinf,
                  std::optional<double> neginf, Location location) {
  Session session("nan_to_num", location);
  DType dtype = checked(x, "x")->type->dtype;
  if (!is_floating(dtype))
    return x.clone();
  double infinity = std::numeric_limits<double>::infinity();
  Tensor result = where(is_nan(x), nan, x);
  result = where(result == infinity, posinf.value_or(largest_finite(dtype)), result);
  return where(result == -infinity, neginf.value_or(-largest_finite(dtype)), result).to(dtype);
}

namespace {

// x + value * f(a, b).
template <typename F>
Tensor added(const Tensor &x, const Tensor &a, const Tensor &b, const Scalar &value, F f) {
  const TensorArg args[] = {x, a, b};
  DType dtype = result_type(args), wide = computing_dtype(dtype);
  if (dtype == DType::kBool)
    fail(ErrorKind::kDType, "x, a and b are bool; convert them with to() first");
  // In the dtype of the operands: 0.5 of integers is 0.
  return (x.to(wide) + wrap(make_fitting_scalar(value, wide)) * f(a.to(wide), b.to(wide)))
      .to(dtype);
}

} // namespace

Tensor addcmul(const Tensor &x, const Tensor &a, const Tensor &b, Scalar value, Location location) {
  Session session("addcmul", location);
  return added(x, a, b, value, [](const Tensor &p, const Tensor &q) { return p * q; });
}

Tensor addcdiv(const Tensor &x, const Tensor &a, const Tensor &b, Scalar value, Location location) {
  Session session("addcdiv", location);
  DType dividend = checked(a, "a")->type->dtype, divisor = checked(b, "b")->type->dtype;
  if (!is_floating(dividend) && !is_floating(divisor))
    fail(ErrorKind::kDType, std::string("a is ") + name(dividend) + " and b is " + name(divisor) +
                                "; one of them must be floating: convert it with to() first");
  return added(x, a, b, value, [](const Tensor &p, const Tensor &q) { return p / q; });
}

} // namespace weft
