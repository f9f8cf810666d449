// The expansions of elementary functions, each written once for any kind of number: V is a lane
// type of floats. Expand.cpp instantiates them with MLIR values, the tests with plain floats and
// doubles: the same operations in the same order, so what the tests measure is what kernels
// compute. Every fma is explicit; no other contraction may happen.
//
// V::kBits is 32 or 64. V supplies constants of its type, + - * /, fma, abs, sqrt, floor, copySign,
// comparisons that give masks (lt, eq, unordered, signBit; both, either, negate), select, its bits
// as integers of the same width, which add, subtract, shift, and convert back; entries of a table
// (lookup); and what only few lanes need: ifAny(mask, x, otherwise, body), which is body(x) in the
// lanes of the mask and `otherwise` in the others, where the body is free for a lane that does not
// ask; and whileAny, which runs its body for all lanes while one of them asks.
//
// Techniques are the classic ones: Cody and Waite's two-constant argument reduction; Tang's and
// fdlibm's log in s = f / (2 + f); erfc through the scaled function as in Shepherd and Laframboise
// (Math. Comp. 36, 1981). The coefficients are our own (fit.py).
#pragma once

#include <array>
#include <cstddef>
#include <iterator>

#include "compiler/math/Coefficients.h"

namespace weft::compiler::math {

// Horner's rule with fma.
template <typename V, size_t N> V polynomial(V x, const double (&coefficients)[N]) {
  V sum = x.constant(coefficients[N - 1]);
  for (size_t i = N - 1; i-- > 0;)
    sum = fma(sum, x, x.constant(coefficients[i]));
  return sum;
}

struct Limits32 {
  static constexpr int kMantissaBits = 23, kBias = 127;
  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits.
  static constexpr double kRound = 12582912.0;
  // Beyond these exp, and exp2, is infinite or rounds to 0.
  static constexpr double kExpHigh = 89.0, kExpLow = -104.0;
  static constexpr double kExp2High = 129.0, kExp2Low = -150.0;
  static constexpr double kLn2High = 0.693145751953125, kLn2Low = 1.42860682030941723e-06;
  static constexpr double kSmallestNormal = 1.17549435e-38, kDenormalScale = 8388608.0;
  static constexpr int kDenormalExponent = 23;
  static constexpr long long kHalfSqrt2Bits = 0x3f3504f3; // sqrt(1/2)
};
struct Limits64 {
  static constexpr int kMantissaBits = 52, kBias = 1023;
  static constexpr double kRound = 6755399441055744.0;
  static constexpr double kExpHigh = 710.0, kExpLow = -746.0;
  static constexpr double kExp2High = 1025.0, kExp2Low = -1075.0;
  static constexpr double kLn2High = 0.693147180369123816490, kLn2Low = 1.90821492927058770002e-10;
  static constexpr double kSmallestNormal = 2.2250738585072014e-308,
                          kDenormalScale = 4503599627370496.0;
  static constexpr int kDenormalExponent = 52;
  static constexpr long long kHalfSqrt2Bits = 0x3fe6a09e667f3bcd;
};
template <int kBits> struct LimitsOf {
  using type = Limits32;
};
template <> struct LimitsOf<64> {
  using type = Limits64;
};
template <typename V> using L = typename LimitsOf<V::kBits>::type;

// An unevaluated sum of two floats, the second below half a unit in the last place of the first.
template <typename V> struct Pair {
  V high, low;
};
template <typename V> Pair<V> exactProduct(V a, V b) {
  V high = a * b;
  return {high, fma(a, b, -high)};
}
// |a| >= |b|, or a is 0.
template <typename V> Pair<V> quickSum(V a, V b) {
  V high = a + b;
  return {high, b - (high - a)};
}
template <typename V> Pair<V> exactSum(V a, V b) {
  V high = a + b, t = high - a;
  return {high, (a - (high - t)) + (b - t)};
}

//===-- exp and expm1 -------------------------------------------------------------------------===//

// x = n ln 2 + r, |r| <= ln 2 / 2; `exponent` is n + s, where `round` is L<V>::kRound + s with a
// small integer s.
template <typename V> struct Reduced {
  V r;
  typename V::Int exponent;
};
template <typename V> Reduced<V> reduceByLn2(V x, V round) {
  V shifted = fma(x, x.constant(1.44269504088896340736), round);
  V n = shifted - round;
  V r = fma(n, x.constant(-L<V>::kLn2High), x);
  r = fma(n, x.constant(-L<V>::kLn2Low), r);
  return {r, bits(shifted) - bits(x.constant(L<V>::kRound))};
}
// The same for x + low; |low| is far below |x|, or null for 0.
template <typename V> Reduced<V> reduceByLn2(V x, const V *low) {
  Reduced<V> reduced = reduceByLn2(x, x.constant(L<V>::kRound));
  if (low)
    reduced.r = reduced.r + *low;
  return reduced;
}
// (exp(r) - 1 - r) / r^2
template <typename V> V expTail(V r) {
  return V::kBits == 32 ? polynomial(r, kExp32) : polynomial(r, kExp64);
}
// 2^e, for exponents of normal numbers.
template <typename V> V powerOfTwo(V like, typename V::Int e) {
  return like.fromBits((e + L<V>::kBias).shiftLeft(L<V>::kMantissaBits));
}

// mantissa * 2^exponent, not yet multiplied: a result below the normal range is to be rounded once,
// at the very end.
template <typename V> struct Scaled {
  V mantissa;
  typename V::Int exponent;
};
// exp(x + low) for x in [kExpLow, kExpHigh], or NaN, which stays in the mantissa; |low| is far
// below |x|, or null for 0.
template <typename V> Scaled<V> boundedExp(V x, const V *low) {
  auto [r, exponent] = reduceByLn2(x, low);
  return {fma(r * r, expTail(r), r) + x.constant(1.0), exponent};
}
// exp(x + low); infinities and values out of range are clamped.
template <typename V> Scaled<V> scaledExp(V x, V low) {
  V least = x.constant(L<V>::kExpLow), most = x.constant(L<V>::kExpHigh);
  // Each select hands on what its comparison looked at, so that it is one machine instruction, and
  // NaN passes.
  V bounded = select(lt(x, least), least, x);
  bounded = select(lt(most, bounded), most, bounded);
  low = select(either(lt(most, x), lt(x, least)), x.constant(0.0), low);
  return boundedExp(bounded, &low);
}
// Two factors reach from below the smallest denormal to above the largest number.
template <typename V> V scale(Scaled<V> s) {
  auto half = s.exponent.shiftRight(1);
  return s.mantissa * powerOfTwo(s.mantissa, half) * powerOfTwo(s.mantissa, s.exponent - half);
}
// 2^n exp(r) comes as a product with 2^(n + kExpShift) or, from 0 on, 2^(n - kExpShift), exact and
// in the normal range, times a constant that rounds it, once, into what range it belongs to. Where
// the result is 0 nothing is multiplied down to it: a product that underflows takes Intel's
// processors some 150 cycles, and half of a causal mask is exp(-infinity).
inline constexpr double kExpShift = 64, kExpScale = 18446744073709551616.0; // 2^64

// The base of a power, and below and above which exponents it is 0 and infinite.
struct NaturalBase {
  template <typename V> static constexpr double kLow = L<V>::kExpLow;
  template <typename V> static constexpr double kHigh = L<V>::kExpHigh;
  template <typename V> static Reduced<V> reduce(V x, V round) {
    return reduceByLn2(x, round);
  }
};
struct Base2 {
  template <typename V> static constexpr double kLow = L<V>::kExp2Low;
  template <typename V> static constexpr double kHigh = L<V>::kExp2High;
  // x = n + r / ln 2.
  template <typename V> static Reduced<V> reduce(V x, V round) {
    V shifted = x + round, part = x - (shifted - round); // exact
    return {part * x.constant(0.69314718055994530942),
            bits(shifted) - bits(x.constant(L<V>::kRound))};
  }
};
// `round` is L<V>::kRound plus the shift, `unscale` two to the power of minus the shift.
template <typename Base, typename V> V shiftedExp(V x, V round, V unscale) {
  auto [r, exponent] = Base::reduce(x, round);
  V one = x.constant(1.0), mantissa = fma(fma(expTail(r), r, one), r, one);
  V scaled = mantissa * powerOfTwo(x, exponent);
  return select(lt(x, x.constant(Base::template kLow<V>)), x.constant(0.0), scaled) * unscale;
}
template <typename Base, typename V> V power(V x) {
  V most = x.constant(Base::template kHigh<V>);
  V bounded = select(lt(most, x), most, x);
  auto small = lt(bounded, x.constant(0.0));
  V round =
      select(small, x.constant(L<V>::kRound + kExpShift), x.constant(L<V>::kRound - kExpShift));
  return shiftedExp<Base>(bounded, round,
                          select(small, x.constant(1 / kExpScale), x.constant(kExpScale)));
}
template <typename V> V exp(V x) {
  return power<NaturalBase>(x);
}
template <typename V> V exp2(V x) {
  return power<Base2>(x);
}
// exp(x) for x that are at most 0, or NaN: the same bits with fewer instructions.
template <typename V> V expOfNonPositive(V x) {
  return shiftedExp<NaturalBase>(x, x.constant(L<V>::kRound + kExpShift),
                                 x.constant(1 / kExpScale));
}

// 2^n ((1 - 2^-n) + r + r^2 q(r)): for n = 0 the sum starts with r, which is x. Below -40 it is -1
// in any precision.
template <typename V> V expm1(V x) {
  V least = x.constant(-40.0), most = x.constant(L<V>::kExpHigh), one = x.constant(1.0);
  V bounded = select(lt(x, least), least, select(lt(most, x), most, x));
  auto [r, exponent] = reduceByLn2(bounded, static_cast<const V *>(nullptr));
  // 2^-n is nothing beside 1 from n = 64 on, where its bits would leave the exponent's range.
  V inverse = powerOfTwo(x, bits(one) - bits(one) - exponent);
  V rest = one - select(lt(x.constant(44.0), bounded), x.constant(0.0), inverse);
  return copySign(scale(Scaled<V>{fma(r * r, expTail(r), rest + r), exponent}), x);
}

//===-- log -----------------------------------------------------------------------------------===//

// x = m * 2^e with m in [sqrt(1/2), sqrt(2)), for positive finite x.
template <typename V> struct Split {
  V m, e;
};
template <typename V> Split<V> split(V x) {
  auto tiny = lt(x, x.constant(L<V>::kSmallestNormal));
  V y = select(tiny, x * x.constant(L<V>::kDenormalScale), x);
  auto e = (bits(y) - L<V>::kHalfSqrt2Bits).shiftRight(L<V>::kMantissaBits);
  V m = x.fromBits(bits(y) - e.shiftLeft(L<V>::kMantissaBits));
  return {m, x.fromInt(e) - select(tiny, x.constant(L<V>::kDenormalExponent), x.constant(0.0))};
}
// What log gives for 0, negative numbers, infinity and NaN.
template <typename V> V logSpecials(V x, V result) {
  V infinity = x.infinity();
  result = select(eq(x, infinity), infinity, result);
  result = select(eq(x, x.constant(0.0)), -infinity, result);
  return select(either(lt(x, x.constant(0.0)), unordered(x)), x.nan(), result);
}
// log(1 + f) + e ln 2 + low for the parts of a split, f = m - 1: f is exact, and all that is
// rounded is small beside it. Of singles it is f - (f^2/2 - f^3 p(f)), which divides by nothing; of
// doubles, where p would be long, f - (f^2/2 - s (f^2/2 + r)) with s = f / (2 + f).
template <typename V> V logOfSplit(V f, V e, V low) {
  V h = f.constant(0.5) * f * f, rest = low;
  if constexpr (V::kBits == 32) {
    rest = fma(f * f * f, polynomial(f, kLog1p32), low);
  } else {
    V s = f / (f.constant(2.0) + f), z = s * s;
    rest = fma(s, fma(z, polynomial(z, kLog64), h), low);
  }
  return fma(e, f.constant(L<V>::kLn2High), f - (h - rest));
}
template <typename V> V log(V x) {
  auto [m, e] = split(x);
  return logSpecials(x, logOfSplit(m - x.constant(1.0), e, e * x.constant(L<V>::kLn2Low)));
}

// log of u = 1 + x, rounded, and what the rounding took, which is small beside u.
template <typename V> V log1p(V x) {
  V one = x.constant(1.0);
  Pair<V> u = exactSum(one, x);
  auto [m, e] = split(u.high);
  V low = fma(e, x.constant(L<V>::kLn2Low), u.low / u.high);
  return copySign(logSpecials(u.high, logOfSplit(m - one, e, low)), x);
}

// log(x) as a pair of about 1.5 times the precision, for positive finite x.
template <typename V> Pair<V> preciseLog(V x) {
  auto [m, e] = split(x);
  V f = m - x.constant(1.0), d = m + x.constant(1.0);
  V dLow = f - (d - x.constant(2.0)); // d + dLow = 2 + f
  V s = f / d;
  V sLow = (fma(-s, d, f) - s * dLow) / d;
  V z = s * s;
  // 2 s + 2/3 s^3 as pairs, the rest in plain numbers.
  Pair<V> zPair = exactProduct(s, s);
  zPair.low = fma(s + s, sLow, zPair.low);
  Pair<V> cube = exactProduct(zPair.high, s);
  cube.low = cube.low + fma(zPair.high, sLow, zPair.low * s);
  V third = x.constant(2.0 / 3.0), thirdLow = x.constant(2.0 / 3.0 / 9007199254740992.0 * 0.5);
  Pair<V> term = exactProduct(cube.high, third);
  term.low = term.low + fma(cube.high, thirdLow, cube.low * third);
  V tail = z * z * s * polynomial(z, kLogTail64);
  Pair<V> sum = quickSum(s + s, term.high);
  sum.low = sum.low + (sLow + sLow) + term.low + tail;
  // kLn2High has 32 trailing zero bits: its product with an exponent is exact.
  Pair<V> total = exactSum(e * x.constant(L<V>::kLn2High), sum.high);
  total.low = total.low + fma(e, x.constant(L<V>::kLn2Low), sum.low);
  return quickSum(total.high, total.low);
}

//===-- tanh ----------------------------------------------------------------------------------===//

template <typename V> V tanh(V x) {
  V a = abs(x), z = x * x;
  V nearZero = fma(x * z, V::kBits == 32 ? polynomial(z, kTanh32) : polynomial(z, kTanh64), x);
  V one = x.constant(1.0), grown = one;
  if constexpr (V::kBits == 32) {
    // From 10 on it is 1, so that no exponential leaves the range of normal numbers.
    V bounded = select(lt(x.constant(10.0), a), x.constant(10.0), a);
    auto [r, exponent] = reduceByLn2(bounded + bounded, x.constant(L<V>::kRound));
    grown = fma(fma(expTail(r), r, one), r, one) * powerOfTwo(x, exponent);
  } else {
    grown = exp(a + a);
  }
  V far = one - x.constant(2.0) / (grown + one);
  // Of both: the polynomial's sum loses the sign of -0.
  return copySign(select(lt(a, x.constant(0.58)), nearZero, far), x);
}

//===-- erf and erfc --------------------------------------------------------------------------===//

// erfc(|x|). From 30 on it is 0 in any precision.
template <typename V> V erfcOfMagnitude(V x) {
  V a = abs(x);
  a = select(lt(x.constant(30.0), a), x.constant(30.0), a);
  Pair<V> square = exactProduct(a, a);
  Scaled<V> e = scaledExp(-square.high, -square.low);
  // Two quotients of one division, the slowest instruction of all: by a + 4 and by 2 a + 1.
  V four = x.constant(4.0), one = x.constant(1.0), first = a + four,
    second = fma(a, x.constant(2.0), one);
  V both = one / (first * second);
  V inverse = both * second, inverseSecond = both * first;
  // q = (a - 4) / (a + 4), once refined: the plain quotient's error would show at a = 0, where q is
  // -1.
  V q = (a - four) * inverse;
  V residual = fma(-q, a, fma(q + one, -four, a));
  q = fma(residual, inverse, q);
  V p = V::kBits == 32 ? polynomial(q, kErfcxNear32) : polynomial(q, kErfcx64);
  V product = fma(e.mantissa, p, e.mantissa);
  if constexpr (V::kBits == 32) {
    inverseSecond = fma(fma(-second, inverseSecond, one), inverseSecond, inverseSecond);
    e.mantissa = product * inverseSecond;
  } else {
    // By 2 a + 1 as it is before it is rounded: 2.7 units in the last place, else 3.6.
    V rounded = fma(a, x.constant(2.0), one - second), quotient = product * inverseSecond;
    V rest = fma(-rounded, quotient, fma(-second, quotient, product));
    e.mantissa = fma(rest, inverseSecond, quotient);
  }
  return scale(e);
}
// erf(x) for |x| < 1.
template <typename V> V erfNearZero(V x) {
  V z = x * x;
  return fma(x, V::kBits == 32 ? polynomial(z, kErf32) : polynomial(z, kErf64), x);
}
template <typename V> V erfc(V x) {
  V tail = erfcOfMagnitude(x), one = x.constant(1.0);
  V far = select(lt(x, x.constant(0.0)), x.constant(2.0) - tail, tail);
  return select(lt(abs(x), x.constant(0.5)), one - erfNearZero(x), far);
}
// Below the bound by a polynomial, from there on as 1 - exp(log(erfc(a))), where the logarithm is a
// polynomial in a: up to where erf is 1. No division and no scaled function.
template <typename V> V erf(V x) {
  constexpr double kBound = V::kBits == 32 ? 0.9275 : 1.0, kEnd = V::kBits == 32 ? 4.0 : 5.95;
  V a = abs(x), one = x.constant(1.0);
  a = select(lt(x.constant(kEnd), a), x.constant(kEnd), a);
  V near = V::kBits == 32 ? fma(a, polynomial(a * a, kErfNear32), a) : erfNearZero(a);
  V tail = V::kBits == 32 ? polynomial(a, kErfTail32) : polynomial(a, kErfTail64);
  auto [r, exponent] = reduceByLn2(fma(tail, a, -a), x.constant(L<V>::kRound));
  V mantissa = fma(fma(expTail(r), r, one), r, one);
  V far = fma(-mantissa, powerOfTwo(x, exponent), one);
  return copySign(select(lt(a, x.constant(kBound)), near, far), x);
}

//===-- gelu ----------------------------------------------------------------------------------===//

// The Gaussian error linear unit x Phi(x) of singles: max(x, 0) - a Phi(-a) with a = |x| and
// Phi(-a) = exp(-a^2 / 2) P(a) / Q(a). All terms of P and Q are positive, so that nothing cancels;
// even and odd powers apart round less often than Horner's rule.
template <typename V> V gelu(V x) {
  static_assert(V::kBits == 32);
  auto evenOdd = [](V square, const auto &coefficients, size_t first) {
    size_t last = std::size(coefficients) - 1;
    if ((last - first) % 2)
      --last;
    V sum = square.constant(coefficients[last]);
    for (; last > first; last -= 2)
      sum = fma(sum, square, square.constant(coefficients[last - 2]));
    return sum;
  };
  // From 14.5 on a Phi(-a) rounds to 0; as in exp, nothing is multiplied down to it.
  V a = abs(x), zero = x.constant(0.0), one = x.constant(1.0);
  auto vanishes = lt(x.constant(14.5), a);
  a = select(vanishes, one, a);
  V square = a * a, low = fma(a, a, -square), half = x.constant(-0.5);
  V p = fma(evenOdd(square, kMills32P, 1), a, evenOdd(square, kMills32P, 0));
  V q = fma(evenOdd(square, kMills32Q, 1), a, evenOdd(square, kMills32Q, 0));
  V linear = a * (p / q);
  auto [r, exponent] = reduceByLn2(square * half, x.constant(L<V>::kRound + kExpShift));
  r = fma(low, half, r);
  V tail = fma(linear, fma(expTail(r) * r, r, r), linear) * powerOfTwo(x, exponent);
  tail = select(vanishes, zero, tail);
  // A product: -infinity times 0 is NaN, as in the definition.
  V positive = x * select(lt(zero, x), one, zero);
  return fma(tail, x.constant(-1 / kExpScale), positive);
}

//===-- rsqrt ---------------------------------------------------------------------------------===//

// One Newton step on the rounded 1 / sqrt(x), whose own error reaches 1.5 units.
template <typename V> V rsqrt(V x) {
  V y = x.constant(1.0) / sqrt(x);
  Pair<V> product = exactProduct(x, y);
  V error = fma(-product.low, y, fma(-product.high, y, x.constant(1.0)));
  V better = fma(x.constant(0.5) * y, error, y);
  // 0, infinity and numbers whose products leave the range need no step.
  return select(unordered(better), y, better);
}

//===-- sin and cos ---------------------------------------------------------------------------===//

// The sine of an angle in [-pi/4, pi/4] that is high + low, low far below high, and its cosine.
template <typename V> V sineOf(V high, V low) {
  V z = high * high;
  return high + fma(high * z, V::kBits == 32 ? polynomial(z, kSin32) : polynomial(z, kSin64), low);
}
template <typename V> V cosineOf(V high, V low) {
  V z = high * high, one = high.constant(1.0), half = z * high.constant(0.5), most = one - half;
  return most + (((one - most) - half) +
                 fma(z * z, V::kBits == 32 ? polynomial(z, kCos32) : polynomial(z, kCos64),
                     -(high * low)));
}

// x = n pi/2 + high + low, |high| <= pi/4; n is an integer, exact up to multiples of 4.
template <typename V> struct Angle {
  V high, low, n;
};
// For doubles of |x| < 2^30, where three constants reduce the argument exactly enough.
template <typename V> Angle<V> angleOf(V x) {
  V round = x.constant(L<V>::kRound);
  V n = fma(x, x.constant(0.636619772367581343), round) - round;
  V r = fma(n, x.constant(-1.57079632679489655800), x);
  Pair<V> middle = exactProduct(n, x.constant(-6.12323399573676603587e-17));
  Pair<V> reduced = exactSum(r, middle.high);
  return {reduced.high, reduced.low + fma(n, x.constant(1.49738490485916983e-33), middle.low), n};
}
// For doubles of any larger size (Payne and Hanek 1983): x 2/pi modulo 4, from those 24-bit digits
// of 2/pi whose products with x are not multiples of 4. Seven of them leave an error of 2^-90:
// within budget unless x is closer than 2^-36 to a multiple of pi/2, which no float is.
template <typename V> Angle<V> angleOfLarge(V x) {
  V round = x.constant(L<V>::kRound), zero = x.constant(0.0);
  auto exponent = bits(abs(x)).shiftRight(L<V>::kMantissaBits) - L<V>::kBias;
  V first = floor((x.fromInt(exponent) - x.constant(53.5)) * x.constant(1.0 / 24.0));
  first = select(lt(first, zero), zero, first);
  auto digit = bits(first + round) - bits(round);
  auto down = bits(round) - bits(first * x.constant(24.0) + round);
  // Of the magnitude: below 0 the remainder of a small product would not be exact.
  V y = abs(x) * powerOfTwo(x, down);
  // Halves of y, so that their products with digits are exact.
  V yHigh = x.fromBits(bits(y).shiftRight(27).shiftLeft(27)), yLow = y - yHigh;
  Pair<V> turns{zero, zero};
  double weight = 1;
  for (int i = 0; i < 7; ++i) {
    weight /= 16777216.0;
    V d = lookup(x, kTwoOverPi, digit + i) * x.constant(weight);
    for (V half : {yHigh, yLow}) {
      V product = half * d;
      product = fma(floor(product * x.constant(0.25)), x.constant(-4.0), product);
      Pair<V> sum = exactSum(turns.high, product);
      turns = {sum.high, turns.low + sum.low};
    }
  }
  V n = (turns.high + round) - round;
  Pair<V> part = exactSum(turns.high - n, turns.low);
  V halfPi = x.constant(1.57079632679489655800);
  Pair<V> angle = exactProduct(part.high, halfPi);
  V low = fma(part.high, x.constant(6.12323399573676603587e-17), fma(part.low, halfPi, angle.low));
  V sign = copySign(x.constant(1.0), x);
  return {angle.high * sign, low * sign, n * sign};
}

// For doubles; `quarter` is 0 for sin and 1 for cos.
template <typename V> V sinQuarter(V x, int quarter) {
  Angle<V> angle = angleOf(x);
  auto large = negate(lt(abs(x), x.constant(1073741824.0)));
  auto [t, low, n] =
      ifAny(large, x, std::array<V, 3>{angle.high, angle.low, angle.n}, [](V lanes) {
        Angle<V> exact = angleOfLarge(lanes);
        return std::array<V, 3>{exact.high, exact.low, exact.n};
      });
  V sine = sineOf(t, low), cosine = cosineOf(t, low), round = x.constant(L<V>::kRound);
  auto octant = (bits(n + round) - bits(round)) + quarter;
  V value = select(octant.testBit(0), cosine, sine);
  value = select(octant.testBit(1), -value, value);
  // The reduction loses the sign of -0.
  return quarter == 0 ? select(eq(x, x.constant(0.0)), x, value) : value;
}

// For singles. x - n pi/2 as a pair: the first constant has 24 bits like x, so that their
// difference, which is below 1, is exact up to |x| = kLargestSingleAngle; from there on, for
// infinity and NaN, doubles do it.
inline constexpr double kLargestSingleAngle = 32768.0;
template <typename V> V sinQuarterOfSingle(V x, int quarter) {
  static_assert(V::kBits == 32);
  V round = x.constant(L<V>::kRound), shifted = fma(x, x.constant(0.636619772367581343), round),
    n = shifted - round;
  V r = fma(n, x.constant(-1.5707963705062866), x);
  Pair<V> middle = exactProduct(n, x.constant(4.371138828673793e-08));
  Pair<V> t = exactSum(r, middle.high);
  t.low = t.low + fma(n, x.constant(1.7151245100058819e-15), middle.low);
  V sine = sineOf(t.high, t.low), cosine = cosineOf(t.high, t.low);
  auto octant = bits(shifted) + quarter; // what kRound adds is a multiple of 4
  V value = select(octant.testBit(0), cosine, sine);
  value = select(octant.testBit(1), -value, value);
  if (quarter == 0)
    value = select(eq(x, x.constant(0.0)), x, value);
  auto large = negate(lt(abs(x), x.constant(kLargestSingleAngle)));
  return ifAny(large, x, std::array<V, 1>{value}, [quarter](V lanes) {
    return std::array<V, 1>{narrow(sinQuarter(widen(lanes), quarter))};
  })[0];
}

//===-- atan2 ---------------------------------------------------------------------------------===//

// With 0 <= a <= b the smaller and the larger of |x| and |y|, atan(a / b) is atan(t) for t = a / b
// up to 1/2, and pi/4 + atan(t) for t = (a - b) / (a + b) beyond, where the difference is exact:
// |t| <= 1/2 with one division. The quadrant then adds multiples of pi/4.
template <typename V> V atan2(V y, V x) {
  V zero = x.constant(0.0), one = x.constant(1.0), absX = abs(x), absY = abs(y);
  auto steep = lt(absX, absY);
  V a = select(steep, absX, absY), b = select(steep, absY, absX);
  // The sum of two large numbers is to stay finite.
  V fit = select(lt(x.constant(1e30), b), x.constant(0.5), one);
  a = a * fit;
  b = b * fit;
  auto none = eq(b, zero), near = negate(either(lt(a + a, b), none));
  // Two infinities count as equal; 0 / 0 as 0.
  V numerator = select(near, select(eq(a, b), zero, a - b), a),
    denominator = select(near, a + b, select(none, one, b));
  V t = numerator / denominator, z = t * t;
  V angle = fma(t * z, V::kBits == 32 ? polynomial(z, kAtan32) : polynomial(z, kAtan64), t);
  // quarters pi/4 + sign angle.
  V quarters = select(near, one, zero);
  quarters = select(steep, x.constant(2.0) - quarters, quarters);
  angle = select(steep, -angle, angle);
  auto behind = signBit(x);
  quarters = select(behind, x.constant(4.0) - quarters, quarters);
  angle = select(behind, -angle, angle);
  // The high part leaves room for its multiples to be exact.
  V high = x.constant(V::kBits == 32 ? 0.78539800643920898438 : 0.78539816339744827900);
  V low = x.constant(V::kBits == 32 ? 1.5695823932524066e-07 : 3.0616169978683829e-17);
  return copySign(fma(quarters, high, fma(quarters, low, angle)), y);
}

//===-- fmod ----------------------------------------------------------------------------------===//

// C's fmod, exact: for doubles, by steps that take up to 50 bits off the quotient each.
template <typename V> V fmod(V x, V y) {
  V zero = x.constant(0.0), round = x.constant(L<V>::kRound), b = abs(y);
  // Plus 64 and the bias: that of what may be denormal is read off a larger number.
  auto exponentOf = [&](V a) {
    V grown = select(lt(a, x.constant(1.0)), a * x.constant(18446744073709551616.0), a);
    return x.fromInt(bits(grown).shiftRight(L<V>::kMantissaBits)) +
           select(lt(a, x.constant(1.0)), zero, x.constant(64.0));
  };
  V bExponent = exponentOf(b);
  auto left = [&](V a) {
    return either(lt(b, a), eq(b, a));
  };
  V rest = whileAny(left, abs(x), [&](V a) {
    V excess = exponentOf(a) - bExponent - x.constant(50.0);
    V most = x.constant(2.0 * L<V>::kBias); // two factors of scale
    excess = select(lt(excess, zero), zero, select(lt(most, excess), most, excess));
    V divisor = scale(Scaled<V>{b, bits(excess + round) - bits(round)});
    V quotient = floor(a / divisor), next = fma(-quotient, divisor, a);
    // A quotient that was rounded up to an integer.
    next = select(lt(next, zero), next + divisor, next);
    return select(left(a), next, a);
  });
  return select(unordered(y), y, copySign(rest, x));
}

//===-- pow -----------------------------------------------------------------------------------===//

// exp(y * log|x|) as `magnitude`, turned into what C's pow says for signs, zeros, ones, infinities
// and NaN.
template <typename V> V powSpecials(V x, V y, V magnitude) {
  V zero = x.constant(0.0), one = x.constant(1.0), infinity = x.infinity(), a = abs(x);
  auto yInteger = eq(floor(y), y);
  V half = y * x.constant(0.5);
  auto yOdd = both(yInteger, negate(eq(floor(half), half)));
  V result = select(both(yOdd, signBit(x)), -magnitude, magnitude);
  auto finiteNegative = both(lt(x, zero), lt(a, infinity));
  result = select(both(finiteNegative, negate(yInteger)), x.nan(), result);
  result = select(either(unordered(x), unordered(y)), x.nan(), result);
  auto isOne = either(eq(y, zero), either(eq(x, one), both(eq(a, one), eq(abs(y), infinity))));
  return select(isOne, one, result);
}
// |x|^y for doubles; finite positive |x| through the precise logarithm, 0 and infinity through the
// plain one.
template <typename V> V powMagnitude(V x, V y) {
  V a = abs(x);
  Pair<V> l = preciseLog(a);
  V high = y * l.high;
  V low = fma(y, l.high, -high) + y * l.low;
  V plain = y * log(a);
  auto special = either(either(eq(a, x.constant(0.0)), eq(a, x.infinity())),
                        either(unordered(high), unordered(low)));
  V argument = select(special, plain, high);
  return scale(scaledExp(argument, select(special, x.constant(0.0), low)));
}
// |x|^y for singles, in doubles: with a logarithm within 2^-35 and an exponential within 2^-32 of
// it, a product below 104 is exact enough to be rounded once.
template <typename V> V powMagnitudeOfSingle(V x, V y) {
  static_assert(V::kBits == 32);
  V a = abs(x);
  auto [mantissa, exponent] = split(a);
  auto m = widen(mantissa), e = widen(exponent), one = m.constant(1.0);
  auto f = m - one, s = f / (f + m.constant(2.0)), z = s * s;
  auto l = fma(e, m.constant(0.69314718055994530942), fma(s * z, polynomial(z, kLog32), s + s));
  auto infinity = m.infinity();
  l = select(eq(widen(a), m.constant(0.0)), -infinity, select(eq(widen(a), infinity), infinity, l));
  // What is 0 or infinite as a single is a normal double.
  auto t = widen(y) * l, least = m.constant(-110.0), most = m.constant(90.0);
  t = select(lt(t, least), least, t);
  t = select(lt(most, t), most, t);
  auto [r, n] = reduceByLn2(t, m.constant(Limits64::kRound));
  return narrow(fma(fma(polynomial(r, kExpMiddle32), r, one), r, one) * powerOfTwo(m, n));
}
template <typename V> V pow(V x, V y) {
  if constexpr (V::kBits == 32)
    return powSpecials(x, y, powMagnitudeOfSingle(x, y));
  else
    return powSpecials(x, y, powMagnitude(x, y));
}

} // namespace weft::compiler::math
