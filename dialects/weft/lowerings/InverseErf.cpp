// The inverse of the error function, in f64, of which f32 is rounded once. For f32 polynomials in
// f64 give digits enough. For f64 they are a start, and two of Halley's steps follow, each of which
// gives three times as many right digits: for |x| = a the steps compare with erf(y) or, where a is
// close to 1 and 1 - a exact, with erfc(y), so that no digits cancel.
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

// The same within 3e-9, for f32, whose w ends at 16: by interpolation at Chebyshev's nodes, highest
// first.
static constexpr double kNear32[] = {
    1.23465771145025733e-10, 4.3406268038539929e-10, -1.08617612715943427e-8,
    1.65036440412137305e-8, 4.78689708455885799e-7, -3.42626620973426798e-6,
    -4.99600011014395547e-6, 0.000218264125215522598, -0.00125270795735577021,
    -0.0041773250804577627, 0.246640276748584236, 1.50140935174817641};
static constexpr double kFar32[] = {
    -0.0000326353182558775329, 0.000165715216656308431, -0.000274290030520125672,
    -0.000127439495304069273, 0.00147426489801754185, -0.00356347951788260078,
    0.00568771191992461224, -0.00764343085972505639, 0.00944530945984841404, 1.00167527018050208,
    2.83297680147707174};

Value ScalarEmitter::erfinv(Value x) {
  return emitWidened(b_, loc_, x, [&](mlir::ValueRange args) -> Value {
    mlir::Type type = args[0].getType(), f64 = b_.getF64Type();
    Value wide = type == f64 ? args[0] : cast(args[0], f64), a = abs(wide);
    auto number = [&](double n) {
      return constant(f64, n);
    };
    Value zero = number(0), one = number(1), half = number(0.5), rest = sub(one, a);
    auto polynomial = [&](llvm::ArrayRef<double> coefficients, Value at) {
      Value sum = number(coefficients[0]);
      for (double coefficient : coefficients.drop_front())
        sum = add(mul(sum, at), number(coefficient));
      return mul(sum, a);
    };
    auto start = [&](llvm::ArrayRef<double> near, llvm::ArrayRef<double> far, Value w) {
      return select(compare(Direction::lt, w, number(5)), polynomial(near, sub(w, number(2.5))),
                    polynomial(far, sub(sqrt(w), number(3))));
    };
    // What was computed for a, of x.
    auto finish = [&](Value y) {
      // Outside of [-1, 1] the logarithm was NaN.
      y = select(compare(Direction::eq, a, one), number(INFINITY), y);
      return select(compare(Direction::eq, a, zero), wide,
                    select(compare(Direction::lt, wide, zero), neg(y), y));
    };
    Value w = neg(log(mul(rest, add(one, a))));
    if (type != f64)
      return cast(finish(start(kNear32, kFar32, w)), type);
    // Behind 16, where a float64 is within 1e-7 of 1, from the asymptotic form of erfc.
    Value last = add(w, number(M_LN2));
    Value tail = sqrt(sub(last, mul(half, log(mul(last, number(M_PI))))));
    Value y = select(compare(Direction::lt, w, number(16)), start(kNear, kFar, w), tail);
    Value near = compare(Direction::lt, a, half);
    for (int step = 0; step < 2; ++step) {
      Value error = select(near, sub(erf(y), a), sub(rest, erfc(y)));
      Value newton = div(error, mul(number(M_2_SQRTPI), exp(neg(mul(y, y)))));
      y = sub(y, div(newton, add(one, mul(newton, y))));
    }
    return finish(y);
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
