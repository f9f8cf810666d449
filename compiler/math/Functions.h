// The expansions of elementary functions, each written once for any kind of number: V is a lane type of floats. Expand.cpp
// instantiates them with MLIR values, the tests with plain floats and doubles: the same operations in the same order, so what the tests
// measure is what kernels compute. Every fma is explicit; no other contraction may happen.
//
// V::kBits is 32 or 64. V supplies constants of its type, + - * /, fma, abs, sqrt, floor, copySign, comparisons that give masks (lt, eq,
// unordered, signBit; both, either, negate), select, and its bits as integers of the same width, which add, subtract, shift, and convert back.
//
// Techniques are the classic ones: Cody and Waite's two-constant argument reduction; Tang's and fdlibm's log in s = f / (2 + f); erfc through
// the scaled function as in Shepherd and Laframboise (Math. Comp. 36, 1981). The coefficients are our own (fit.py).
#pragma once

#include <cstddef>

#include "compiler/math/Coefficients.h"

namespace weft::compiler::math {

// Horner's rule with fma.
template <typename V, size_t N> V polynomial(V x, const double (&coefficients)[N]) {
  V sum = x.constant(coefficients[N - 1]);
  for (size_t i = N - 1; i-- > 0;) sum = fma(sum, x, x.constant(coefficients[i]));
  return sum;
}


struct Limits32 {
  static constexpr int kMantissaBits = 23, kBias = 127;
  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits.
  static constexpr double kRound = 12582912.0;
  // Beyond these exp is infinite or rounds to 0.
  static constexpr double kExpHigh = 89.0, kExpLow = -104.0;
  static constexpr double kLn2High = 0.693145751953125, kLn2Low = 1.42860682030941723e-06;
  static constexpr double kSmallestNormal = 1.17549435e-38, kDenormalScale = 8388608.0;
  static constexpr int kDenormalExponent = 23;
  static constexpr long long kHalfSqrt2Bits = 0x3f3504f3; // sqrt(1/2)
};
struct Limits64 {
  static constexpr int kMantissaBits = 52, kBias = 1023;
  static constexpr double kRound = 6755399441055744.0;
  static constexpr double kExpHigh = 710.0, kExpLow = -746.0;
  static constexpr double kLn2High = 0.693147180369123816490, kLn2Low = 1.90821492927058770002e-10;
  static constexpr double kSmallestNormal = 2.2250738585072014e-308, kDenormalScale = 4503599627370496.0;
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

//===-- exp -----------------------------------------------------------------------------------===//

// mantissa * 2^exponent, not yet multiplied: a result below the normal range is to be rounded once, at the very end.
template <typename V> struct Scaled {
  V mantissa;
  typename V::Int exponent;
};
// exp(x + low) for x in [kExpLow, kExpHigh], or NaN, which stays in the mantissa; |low| is far below |x|, or null for 0.
template <typename V> Scaled<V> boundedExp(V x, const V *low) {
  V round = x.constant(L<V>::kRound);
  V shifted = fma(x, x.constant(1.44269504088896340736), round);
  V n = shifted - round;
  V r = fma(n, x.constant(-L<V>::kLn2High), x);
  r = fma(n, x.constant(-L<V>::kLn2Low), r);
  if (low) r = r + *low;
  V q = V::kBits == 32 ? polynomial(r, kExp32) : polynomial(r, kExp64);
  return {fma(r * r, q, r) + x.constant(1.0), bits(shifted) - bits(round)};
}
// exp(x + low); infinities and values out of range are clamped.
template <typename V> Scaled<V> scaledExp(V x, V low) {
  V least = x.constant(L<V>::kExpLow), most = x.constant(L<V>::kExpHigh);
  // Each select hands on what its comparison looked at, so that it is one machine instruction, and NaN passes.
  V bounded = select(lt(x, least), least, x);
  bounded = select(lt(most, bounded), most, bounded);
  low = select(either(lt(most, x), lt(x, least)), x.constant(0.0), low);
  return boundedExp(bounded, &low);
}
// Two factors reach from below the smallest denormal to above the largest number.
template <typename V> V scale(Scaled<V> s) {
  auto half = s.exponent.shiftRight(1);
  auto power = [&](typename V::Int e) { return s.mantissa.fromBits((e + L<V>::kBias).shiftLeft(L<V>::kMantissaBits)); };
  return s.mantissa * power(half) * power(s.exponent - half);
}
template <typename V> V exp(V x) {
  // Where the result is 0 nothing is multiplied down to it: a product that underflows takes Intel's processors some 150 cycles, and half of
  // a causal mask is exp(-infinity).
  V most = x.constant(L<V>::kExpHigh), zero = x.constant(0.0);
  auto vanishes = lt(x, x.constant(L<V>::kExpLow));
  V bounded = select(vanishes, zero, x);
  bounded = select(lt(most, bounded), most, bounded);
  return select(vanishes, zero, scale(boundedExp(bounded, static_cast<const V *>(nullptr))));
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
template <typename V> V log(V x) {
  auto [m, e] = split(x);
  V f = m - x.constant(1.0);
  V s = f / (x.constant(2.0) + f);
  V z = s * s;
  V r = z * (V::kBits == 32 ? polynomial(z, kLog32) : polynomial(z, kLog64));
  // log(1 + f) = f - (f^2/2 - s (f^2/2 + r)): f is exact, all that is rounded is small beside it.
  V h = x.constant(0.5) * f * f;
  V rest = fma(s, h + r, e * x.constant(L<V>::kLn2Low));
  return logSpecials(x, fma(e, x.constant(L<V>::kLn2High), f - (h - rest)));
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
  V far = x.constant(1.0) - x.constant(2.0) / (exp(a + a) + x.constant(1.0));
  return select(lt(a, x.constant(0.58)), nearZero, copySign(far, x));
}

//===-- erf and erfc --------------------------------------------------------------------------===//

// erfc(|x|). From 30 on it is 0 in any precision.
template <typename V> V erfcOfMagnitude(V x) {
  V a = abs(x);
  a = select(lt(x.constant(30.0), a), x.constant(30.0), a);
  Pair<V> square = exactProduct(a, a);
  Scaled<V> e = scaledExp(-square.high, -square.low);
  // Two quotients of one division, the slowest instruction of all: by a + 4 and by 2 a + 1.
  V four = x.constant(4.0), one = x.constant(1.0), first = a + four, second = fma(a, x.constant(2.0), one);
  V both = one / (first * second);
  V inverse = both * second, inverseSecond = both * first;
  inverseSecond = fma(fma(-second, inverseSecond, one), inverseSecond, inverseSecond);
  // q = (a - 4) / (a + 4), once refined: the plain quotient's error would show at a = 0, where q is -1.
  V q = (a - four) * inverse;
  V residual = fma(-q, a, fma(q + one, -four, a));
  q = fma(residual, inverse, q);
  V p = V::kBits == 32 ? polynomial(q, kErfcxNear32) : polynomial(q, kErfcx64);
  e.mantissa = fma(e.mantissa, p, e.mantissa) * inverseSecond;
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
template <typename V> V erf(V x) {
  V far = x.constant(1.0) - erfcOfMagnitude(x);
  return select(lt(abs(x), x.constant(1.0)), erfNearZero(x), copySign(far, x));
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

// For doubles of |x| < 2^30, where three constants reduce the argument exactly enough; `quarter` is 0 for sin and 1 for cos.
template <typename V> V sinQuarter(V x, int quarter) {
  V round = x.constant(L<V>::kRound);
  V shifted = fma(x, x.constant(0.636619772367581343), round);
  V n = shifted - round;
  V r = fma(n, x.constant(-1.57079632679489655800), x);
  Pair<V> middle = exactProduct(n, x.constant(-6.12323399573676603587e-17));
  Pair<V> reduced = exactSum(r, middle.high);
  V low = reduced.low + fma(n, x.constant(1.49738490485916983e-33), middle.low);
  V t = reduced.high, z = t * t;
  V sine = t + fma(t * z, polynomial(z, kSin64), low);
  V half = z * x.constant(0.5), most = x.constant(1.0) - half;
  V cosine = most + (((x.constant(1.0) - most) - half) + fma(z * z, polynomial(z, kCos64), -(t * low)));
  auto octant = (bits(shifted) - bits(round)) + quarter;
  V value = select(octant.testBit(0), cosine, sine);
  return select(octant.testBit(1), -value, value);
}

//===-- pow -----------------------------------------------------------------------------------===//

// exp(y * log|x|) as `magnitude`, turned into what C's pow says for signs, zeros, ones, infinities and NaN.
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
// |x|^y for doubles; finite positive |x| through the precise logarithm, 0 and infinity through the plain one.
template <typename V> V powMagnitude(V x, V y) {
  V a = abs(x);
  Pair<V> l = preciseLog(a);
  V high = y * l.high;
  V low = fma(y, l.high, -high) + y * l.low;
  V plain = y * log(a);
  auto special = either(either(eq(a, x.constant(0.0)), eq(a, x.infinity())), either(unordered(high), unordered(low)));
  V argument = select(special, plain, high);
  return scale(scaledExp(argument, select(special, x.constant(0.0), low)));
}
template <typename V> V pow(V x, V y) { return powSpecials(x, y, powMagnitude(x, y)); }

} // namespace weft::compiler::math
