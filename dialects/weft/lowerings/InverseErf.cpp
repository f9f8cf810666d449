// The inverse of the error function: a start, and two of Halley's steps, each of which gives three
// times as many right digits. All in f64, of which f32 is rounded once. For |x| = a the steps
// compare with erf(y) or, where a is close to 1 and 1 - a exact, with erfc(y), so that no digits
// cancel.
#include <cmath>

#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::ir {

using mlir::Value;
namespace arith = mlir::arith;

// y / a over w = -log(1 - a^2), as polynomials in w - 2.5 below 5 and in sqrt(w) - 3 up to 16
// (M. Giles, "Approximating the erfinv function", 2012; his for single precision, highest first).
static constexpr double kNear[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                   -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                   -0.00417768164,  0.246640727,    1.50140941};
static constexpr double kFar[] = {-0.000200214257, 0.000100950558, 0.00134934322,
                                  -0.00367342844,  0.00573950773,  -0.0076224613,
                                  0.00943887047,   1.00167406,     2.83297682};

Value ScalarEmitter::erfinv(Value x) {
  return emitWidened(b_, loc_, x, [&](mlir::ValueRange args) -> Value {
    mlir::Type type = args[0].getType(), f64 = b_.getF64Type();
    Value wide = type == f64 ? args[0] : cast(args[0], f64), a = abs(wide);
    auto number = [&](double n) {
      return constant(f64, n);
    };
    Value zero = number(0), one = number(1), half = number(0.5), rest = sub(one, a);
    auto polynomial = [&](const double(&coefficients)[9], Value at) {
      Value sum = number(coefficients[0]);
      for (double coefficient : llvm::ArrayRef(coefficients).drop_front())
        sum = add(mul(sum, at), number(coefficient));
      return mul(sum, a);
    };
    // Behind 16, where a float64 is within 1e-7 of 1, from the asymptotic form of erfc.
    Value w = neg(log(mul(rest, add(one, a)))), last = add(w, number(M_LN2));
    Value tail = sqrt(sub(last, mul(half, log(mul(last, number(M_PI))))));
    Value y = select(compare(Direction::lt, w, number(5)), polynomial(kNear, sub(w, number(2.5))),
                     select(compare(Direction::lt, w, number(16)),
                            polynomial(kFar, sub(sqrt(w), number(3))), tail));
    Value near = compare(Direction::lt, a, half);
    for (int step = 0; step < 2; ++step) {
      Value error = select(near, sub(erf(y), a), sub(rest, erfc(y)));
      Value newton = div(error, mul(number(M_2_SQRTPI), exp(neg(mul(y, y)))));
      y = sub(y, div(newton, add(one, mul(newton, y))));
    }
    // Outside of [-1, 1] the logarithm was NaN.
    y = select(compare(Direction::eq, a, one), number(INFINITY), y);
    y = select(compare(Direction::eq, a, zero), wide,
               select(compare(Direction::lt, wide, zero), neg(y), y));
    return type == f64 ? y : cast(y, type);
  });
}

double erfinv(double x) {
  double a = std::abs(x), rest = 1 - a;
  if (!(a < 1))
    return a == 1 ? std::copysign(INFINITY, x) : NAN;
  if (a == 0)
    return x;
  // By halving: erf rises, and its inverse lies below 6.
  double low = 0, high = 6;
  for (int i = 0; i < 20; ++i) {
    double middle = (low + high) / 2;
    bool below = a < 0.5 ? std::erf(middle) < a : std::erfc(middle) > rest;
    (below ? low : high) = middle;
  }
  double y = a < 1e-3 ? a * (1 / M_2_SQRTPI) : (low + high) / 2;
  for (int i = 0; i < 3; ++i) {
    double error = a < 0.5 ? std::erf(y) - a : rest - std::erfc(y),
           newton = error / (M_2_SQRTPI * std::exp(-y * y));
    y -= newton / (1 + newton * y);
  }
  return std::copysign(y, x);
}

} // namespace weft::ir
