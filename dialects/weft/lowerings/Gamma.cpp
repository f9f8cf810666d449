// The logarithm of the gamma function and its derivatives, in f64, of which f32 is rounded once.
//
// log gamma: near its zeros 1 and 2 from the series around 2, so that no digits cancel; up to 8 by
// its recurrence, as one logarithm of a product; beyond by Stirling's series. Below 0 by
// reflection. Derivatives: the recurrence up to where the asymptotic series holds, and that series;
// below 0 the same derivative of the reflection formula, a polynomial in the cotangent. (Abramowitz
// and Stegun 6.1, 6.3 and 6.4.)
#include <cmath>

#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/reference/Evaluation.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace weft::ir {

using namespace mlir;

// Of (log gamma(2 + z)) / z: 1 - Euler's constant, then (-1)^k (zeta(k) - 1) / k for k = 2, 3, ...
// They fall as 2^-k: for |z| <= 1/2 so many give a float64's digits, the first 14 a float32's.
static constexpr double kAroundTwo[] = {
    0.42278433509846714,     0.3224670334241132,      -0.0673523010531981,
    0.020580808427784546,    -0.007385551028673986,   0.0028905103307415234,
    -0.001192753911703261,   0.0005096695247430425,   -0.00022315475845357939,
    9.945751278180853e-05,   -4.492623673813314e-05,  2.050721277567069e-05,
    -9.439488275268397e-06,  4.374866789907488e-06,   -2.039215753801366e-06,
    9.55141213040742e-07,    -4.492469198764566e-07,  2.1207184805554665e-07,
    -1.0043224823968099e-07, 4.7698101693639804e-08,  -2.2711094608943164e-08,
    1.0838659214896955e-08,  -5.183475041970047e-09,  2.4836745438024785e-09,
    -1.1921401405860912e-09, 5.731367241678862e-10,   -2.7595228851242334e-10};
static constexpr size_t kAroundTwo32 = 14;

// Bernoulli's numbers B_2, B_4, ...
static constexpr double kBernoulli[] = {1. / 6,        -1. / 30,      1. / 42,
                                        -1. / 30,      5. / 66,       -691. / 2730,
                                        7. / 6,        -3617. / 510,  43867. / 798,
                                        -174611. / 330};

// From here on Stirling's series of 8 terms has a float64's digits.
static constexpr double kStirling = 8;
static constexpr double kHalfLogTwoPi = 0.91893853320467274178;

namespace {

// The pieces of both functions, on f64.
class GammaEmitter {
public:
  GammaEmitter(ScalarEmitter &s, Type f64) : s_(s), f64_(f64) {}
  Value number(double n) {
    return s_.constant(f64_, n);
  }
  Value polynomial(ArrayRef<double> coefficients, Value x) {
    Value sum = number(coefficients.back());
    for (double coefficient : llvm::reverse(coefficients.drop_back()))
      sum = s_.add(s_.mul(sum, x), number(coefficient));
    return sum;
  }
  Value isLess(Value x, double bound) {
    return s_.compare(Direction::lt, x, number(bound));
  }
  Value isZero(Value x) {
    return s_.compare(Direction::eq, x, number(0));
  }
  // pi times x, less the nearest integer to x: exact but for the product.
  Value angle(Value x) {
    return s_.mul(number(M_PI), s_.sub(x, s_.round(x)));
  }

  // For a >= 0.
  Value logGamma(Value a, size_t terms) {
    // The argument of the series, and what the recurrence multiplies: a < 1.5 goes up, by one or
    // two steps, so that its logarithm counts negatively; others go down.
    Value tiny = isLess(a, 0.5), low = isLess(a, 1.5),
          high = s_.compare(Direction::lt, number(kStirling), a);
    Value z = s_.sub(a, number(2)), product = number(1);
    for (double step = 2.5; step < kStirling; ++step) {
      Value down = s_.compare(Direction::ge, z, number(0.5)), next = s_.sub(z, number(1));
      product = s_.select(down, s_.mul(product, s_.add(next, number(2))), product);
      z = s_.select(down, next, z);
    }
    z = s_.select(tiny, a, s_.select(low, s_.sub(a, number(1)), z));
    product = s_.select(tiny, s_.mul(a, s_.add(a, number(1))), s_.select(low, a, product));
    Value logarithm = s_.log(s_.select(high, a, product));
    Value series = s_.mul(z, polynomial(ArrayRef(kAroundTwo).take_front(terms), z));
    Value small = s_.add(series, s_.select(low, s_.neg(logarithm), logarithm));

    Value inverse = s_.div(number(1), a);
    double coefficients[8];
    for (int k = 1; k <= 8; ++k)
      coefficients[k - 1] = kBernoulli[k - 1] / (2 * k * (2 * k - 1));
    Value rest = s_.mul(inverse, polynomial(coefficients, s_.mul(inverse, inverse)));
    Value large = s_.sub(s_.mul(s_.sub(a, number(0.5)), s_.sub(logarithm, number(1))),
                         number(0.5 - kHalfLogTwoPi));
    return s_.select(high, s_.add(large, rest), small);
  }

  // For y >= 0.
  Value derivative(Value y, int64_t order) {
    // Where ten terms of the series have a float64's digits.
    double n = static_cast<double>(order), from = 10 + n, sign = order % 2 ? 1 : -1;
    Value low = isLess(y, from), sum = number(0);
    for (double k = 0; k < from; ++k) {
      // A sum with 0 would lose the sign of -0.
      Value inverse = s_.div(number(1), k == 0 ? y : s_.add(y, number(k)));
      sum = s_.add(sum, power(inverse, order + 1));
    }
    sum = s_.select(low, sum, number(0));
    Value z = s_.select(low, s_.add(y, number(from)), y), inverse = s_.div(number(1), z);
    double coefficients[std::size(kBernoulli)];
    for (size_t k = 1; k <= std::size(kBernoulli); ++k) {
      double t = 2 * static_cast<double>(k); // B_2k (2k + n - 1)! / (2k)!
      coefficients[k - 1] = kBernoulli[k - 1] * std::exp(std::lgamma(t + n) - std::lgamma(t + 1));
    }
    Value rest = s_.mul(power(inverse, order + 2),
                        polynomial(coefficients, s_.mul(inverse, inverse)));
    rest = s_.add(rest, s_.mul(power(inverse, order + 1), number(std::tgamma(n + 1) / 2)));
    Value first = order == 0 ? s_.neg(s_.log(z))
                             : s_.mul(power(inverse, order), number(std::tgamma(n)));
    Value all = s_.add(s_.mul(sum, number(std::tgamma(n + 1))), s_.add(rest, first));
    return sign < 0 ? s_.neg(all) : all;
  }

  // The derivative of this order of pi cot(pi x), as a polynomial in cot(pi x).
  Value cotangentDerivative(Value x, int64_t order) {
    SmallVector<double> p{0, 1};
    for (int64_t i = 0; i < order; ++i) {
      SmallVector<double> next(p.size() + 1, 0); // -(1 + c^2) p'(c)
      for (size_t k = 1; k < p.size(); ++k) {
        next[k - 1] -= static_cast<double>(k) * p[k];
        next[k + 1] -= static_cast<double>(k) * p[k];
      }
      p = next;
    }
    double scale = std::pow(M_PI, static_cast<double>(order + 1));
    for (double &coefficient : p)
      coefficient *= scale;
    Value at = angle(x), cotangent = s_.div(s_.cos(at), s_.sin(at));
    if (order % 2 == 0) // at poles on both sides of which the signs differ
      cotangent = s_.select(isZero(at), number(NAN), cotangent);
    return polynomial(p, cotangent);
  }

private:
  Value power(Value x, int64_t exponent) {
    Value result = x;
    for (int64_t i = 1; i < exponent; ++i)
      result = s_.mul(result, x);
    return result;
  }

  ScalarEmitter &s_;
  Type f64_;
};

} // namespace

// emit(x), in f64 of which a narrower type's result is rounded.
template <typename Emit> static Value inDoubles(ScalarEmitter &s, Type f64, Value x, Emit emit) {
  Type type = x.getType();
  return type == f64 ? emit(x) : s.cast(emit(s.cast(x, f64)), type);
}

Value ScalarEmitter::lgamma(Value x) {
  Type type = x.getType();
  return inDoubles(*this, b_.getF64Type(), x, [&](Value x) {
    GammaEmitter gamma(*this, x.getType());
    Value a = abs(x), below = gamma.isLess(x, 0);
    Value y = gamma.logGamma(a, type == x.getType() ? std::size(kAroundTwo) : kAroundTwo32);
    // |gamma(x) gamma(-x)| = pi / |x sin(pi x)|
    Value sine = abs(sin(gamma.angle(a)));
    Value other = sub(log(div(gamma.number(M_PI), mul(a, sine))), y);
    Value infinity = gamma.number(INFINITY);
    // At integers, and where a sin(pi a) is below all numbers: of such a, gamma(-a) is -1 / a.
    other = select(gamma.isZero(sine), infinity, other);
    other = select(gamma.isLess(a, 1e-100), y, other);
    y = select(below, other, y);
    return select(compare(Direction::eq, a, infinity), infinity, y);
  });
}

Value ScalarEmitter::polygamma(Value x, int64_t order) {
  return inDoubles(*this, b_.getF64Type(), x, [&](Value x) {
    GammaEmitter gamma(*this, x.getType());
    Value below = gamma.isLess(x, 0), y = select(below, sub(gamma.number(1), x), x);
    Value value = gamma.derivative(y, order), reflected = order % 2 ? neg(value) : value;
    return select(below, sub(reflected, gamma.cotangentDerivative(x, order)), value);
  });
}

double lgamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

// x^n for n >= 0. std::pow of long doubles takes ten times as long for the orders that are used.
static long double power(long double x, int64_t n) {
  long double result = 1;
  for (; n > 0; n /= 2, x *= x)
    if (n % 2)
      result *= x;
  return result;
}

double polygamma(int64_t order, double x) {
  // In long doubles, from 40 on by the series.
  auto n = static_cast<long double>(order);
  long double sign = order % 2 ? 1 : -1, y = x;
  if (x < 0) {
    long double at = M_PIl * (y - std::nearbyint(y));
    if (at == 0)
      return order % 2 ? INFINITY : NAN;
    // By the derivatives of pi cot(pi x), one after another as polynomials in the cotangent.
    SmallVector<long double> p{0, M_PIl};
    for (int64_t i = 0; i < order; ++i) {
      SmallVector<long double> next(p.size() + 1, 0);
      for (size_t k = 1; k < p.size(); ++k) {
        next[k - 1] -= M_PIl * static_cast<long double>(k) * p[k];
        next[k + 1] -= M_PIl * static_cast<long double>(k) * p[k];
      }
      p = next;
    }
    long double cotangent = 1 / std::tan(at), reflection = 0;
    for (size_t k = p.size(); k-- > 0;)
      reflection = reflection * cotangent + p[k];
    long double above = polygamma(order, 1 - x);
    return static_cast<double>((order % 2 ? -above : above) - reflection);
  }
  long double factorial = std::tgamma(n + 1), sum = 0;
  for (; y < 40; ++y)
    sum += factorial / power(y, order + 1);
  sum += order == 0 ? -std::log(y) : std::tgamma(n) / power(y, order);
  sum += factorial / 2 / power(y, order + 1);
  // (t + n - 1)! / t! / y^(t + n) for t = 2, 4, ...
  long double term = factorial * (n + 1) / 2 / power(y, order + 2);
  for (size_t k = 1; k <= std::size(kBernoulli); ++k) {
    sum += static_cast<long double>(kBernoulli[k - 1]) * term;
    long double t = 2 * static_cast<long double>(k);
    term *= (t + n) * (t + n + 1) / ((t + 1) * (t + 2)) / (y * y);
  }
  return static_cast<double>(sign * sum);
}

} // namespace weft::ir
