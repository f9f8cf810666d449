// The inverse of the error function. For f32 polynomials give digits enough. For f64 they are a
// start, and one of Halley's steps follows, which gives three times as many right digits: for
// |x| = a it compares with erf(y) or, where a is close to 1 and 1 - a exact, with erfc(y), so that
// no digits cancel.
#include <cmath>

#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace weft::ir {

using namespace mlir;

// y / a over w = -log(1 - a^2), as polynomials in w - 2.5 below 5, in sqrt(w) - 3 up to 16, where
// f32 ends, and in sqrt(w) - 5 behind: by interpolation at Chebyshev's nodes, highest first. (The
// variables are those of M. Giles, "Approximating the erfinv function", 2012.) Within 3e-9 for f64,
// within 2e-8 for f32, where shorter sums round less.
static constexpr double kNear[] = {
    1.23465771145025733e-10, 4.3406268038539929e-10,  -1.08617612715943427e-8,
    1.65036440412137305e-8,  4.78689708455885799e-7,  -3.42626620973426798e-6,
    -4.99600011014395547e-6, 0.000218264125215522598, -0.00125270795735577021,
    -0.0041773250804577627,  0.246640276748584236,    1.50140935174817641};
static constexpr double kNear32[] = {
    -8.93192597024e-9, 2.33359671957e-8,  4.68131348055e-7, -3.46398526763e-6, -4.97241968945e-6,
    0.00021834938624,  -0.00125272639177, -0.0041773928752, 0.246640279055,    1.50140936045};
static constexpr double kFar[] = {
    -0.0000326353182558775329, 0.000165715216656308431, -0.000274290030520125672,
    -0.000127439495304069273,  0.00147426489801754185,  -0.00356347951788260078,
    0.00568771191992461224,    -0.00764343085972505639, 0.00944530945984841404,
    1.00167527018050208,       2.83297680147707174};
static constexpr double kFar32[] = {
    0.000113301343492, -0.000307315259718, -0.0000528835842177, 0.00148194490995, -0.00359970111031,
    0.00568834626321,  -0.00763673334263,  0.00944509758683,    1.00167492691,    2.83297680513};
static constexpr double kTail[] = {-1.05628620907219936e-6,   5.12114549083297609e-6,
                                   -0.0000197639283181845354, 0.0000755778121322123735,
                                   -0.000214957087339235704,  -0.000138628425563241667,
                                   1.01030045426578533,       4.84990639834888122};

Value ScalarEmitter::erfinv(Value x) {
  return emitWidened(b_, loc_, x, [&](ValueRange args) -> Value {
    Value x = args[0], a = abs(x);
    Type type = x.getType();
    auto number = [&](double n) {
      return constant(type, n);
    };
    auto fma = [&](Value f, Value g, Value plus) -> Value {
      return math::FmaOp::create(b_, loc_, f, g, plus);
    };
    auto polynomial = [&](ArrayRef<double> coefficients, Value at) {
      Value sum = number(coefficients[0]);
      for (double coefficient : coefficients.drop_front())
        sum = fma(sum, at, number(coefficient));
      return mul(sum, a);
    };
    auto finish = [&](Value y) {
      // Outside of [-1, 1] the logarithm was NaN.
      y = select(compare(Direction::eq, a, number(1)), number(INFINITY), y);
      return Value(math::CopySignOp::create(b_, loc_, y, x));
    };
    Value w = neg(log(fma(neg(a), a, number(1)))), root = sqrt(w);
    Value isNear = compare(Direction::lt, w, number(5)), near = sub(w, number(2.5)),
          far = sub(root, number(3));
    if (type.isF32())
      return finish(select(isNear, polynomial(kNear32, near), polynomial(kFar32, far)));
    Value y = select(isNear, polynomial(kNear, near), polynomial(kFar, far));
    y = select(compare(Direction::lt, w, number(16)), y, polynomial(kTail, sub(root, number(5))));
    Value one = number(1), rest = sub(one, a);
    Value error =
        select(compare(Direction::lt, a, number(0.5)), sub(erf(y), a), sub(rest, erfc(y)));
    Value newton = div(error, mul(number(M_2_SQRTPI), exp(neg(mul(y, y)))));
    return finish(sub(y, div(newton, fma(newton, y, one))));
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
