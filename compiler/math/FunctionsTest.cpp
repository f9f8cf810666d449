// Measures the expansions in ULP against higher precision, on the very code that kernels get, with
// plain numbers for lanes.
#include "compiler/math/Functions.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace weft::compiler::math {
namespace {

struct Mask {
  bool value;
};
Mask both(Mask a, Mask b) {
  return {a.value && b.value};
}
Mask either(Mask a, Mask b) {
  return {a.value || b.value};
}
Mask negate(Mask a) {
  return {!a.value};
}

template <typename I, typename U> struct PlainInt {
  I value;
  PlainInt shiftLeft(int by) const {
    return {I(U(value) << by)};
  }
  PlainInt shiftRight(int by) const {
    return {I(value >> by)};
  }
  Mask testBit(int bit) const {
    return {((value >> bit) & 1) != 0};
  }
  friend PlainInt operator+(PlainInt a, PlainInt b) {
    return {I(U(a.value) + U(b.value))};
  }
  friend PlainInt operator-(PlainInt a, PlainInt b) {
    return {I(U(a.value) - U(b.value))};
  }
  friend PlainInt operator+(PlainInt a, long long b) {
    return {I(U(a.value) + U(b))};
  }
  friend PlainInt operator-(PlainInt a, long long b) {
    return {I(U(a.value) - U(b))};
  }
};

template <typename T, typename I, typename U> struct Plain {
  static constexpr int kBits = sizeof(T) * 8;
  using Int = PlainInt<I, U>;
  T value;
  Plain constant(double number) const {
    return {T(number)};
  }
  Plain infinity() const {
    return {std::numeric_limits<T>::infinity()};
  }
  Plain nan() const {
    return {std::numeric_limits<T>::quiet_NaN()};
  }
  Plain fromBits(Int i) const {
    return {std::bit_cast<T>(i.value)};
  }
  Plain fromInt(Int i) const {
    return {T(i.value)};
  }
  friend Plain operator+(Plain a, Plain b) {
    return {a.value + b.value};
  }
  friend Plain operator-(Plain a, Plain b) {
    return {a.value - b.value};
  }
  friend Plain operator*(Plain a, Plain b) {
    return {a.value * b.value};
  }
  friend Plain operator/(Plain a, Plain b) {
    return {a.value / b.value};
  }
  friend Plain operator-(Plain a) {
    return {-a.value};
  }
  friend Plain fma(Plain a, Plain b, Plain c) {
    return {std::fma(a.value, b.value, c.value)};
  }
  friend Plain abs(Plain a) {
    return {std::abs(a.value)};
  }
  friend Plain sqrt(Plain a) {
    return {std::sqrt(a.value)};
  }
  friend Plain floor(Plain a) {
    return {std::floor(a.value)};
  }
  friend Plain copySign(Plain a, Plain b) {
    return {std::copysign(a.value, b.value)};
  }
  friend Mask lt(Plain a, Plain b) {
    return {a.value < b.value};
  }
  friend Mask eq(Plain a, Plain b) {
    return {a.value == b.value};
  }
  friend Mask unordered(Plain a) {
    return {std::isnan(a.value)};
  }
  friend Mask signBit(Plain a) {
    return {std::signbit(a.value)};
  }
  friend Plain select(Mask m, Plain a, Plain b) {
    return m.value ? a : b;
  }
  friend Int bits(Plain a) {
    return {std::bit_cast<I>(a.value)};
  }
};
template <typename V, size_t N, typename Body>
std::array<V, N> ifAny(Mask mask, V x, std::array<V, N> otherwise, Body body) {
  return mask.value ? body(x) : otherwise;
}
template <typename V, typename Condition, typename Body>
V whileAny(Condition condition, V value, Body body) {
  while (condition(value).value)
    value = body(value);
  return value;
}
template <typename V, size_t N> V lookup(V like, const double (&table)[N], typename V::Int index) {
  return like.constant(table[index.value]);
}
using F32 = Plain<float, int32_t, uint32_t>;
using F64 = Plain<double, int64_t, uint64_t>;
F64 widen(F32 x) {
  return {x.value};
}
F32 narrow(F64 x) {
  return {static_cast<float>(x.value)};
}

// The distance of `got` from the exact value in units of the last place of T there.
template <typename T, typename Exact> double ulps(T got, Exact exact) {
  T rounded = static_cast<T>(exact);
  if (std::isnan(rounded) || std::isnan(got))
    return std::isnan(rounded) && std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(rounded) || std::isinf(got))
    return rounded == got ? 0 : INFINITY;
  int exponent = rounded == 0 ? -2000 : std::ilogb(rounded);
  int last = std::max(exponent - (std::numeric_limits<T>::digits - 1),
                      std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits);
  return static_cast<double>(std::abs(static_cast<Exact>(got) - exact) /
                             std::ldexp(Exact(1), last));
}

// Every kStride-th float, which meets all exponents, signs, denormals and NaNs; 1 to test all of
// them.
constexpr uint32_t kStride = 1021;

template <typename Function, typename Exact>
void expectUlps32(double budget, Function function, Exact exact) {
  double worst = 0;
  float where = 0;
  for (uint64_t i = 0; i <= 0xffffffffu; i += kStride) {
    float x = std::bit_cast<float>(static_cast<uint32_t>(i));
    double error = ulps(function(F32{x}).value, exact(static_cast<double>(x)));
    if (error > worst)
      worst = error, where = x;
  }
  EXPECT_LE(worst, budget) << "at " << where;
  std::printf("worst %.3f ULP at %g\n", worst, where);
}

template <typename Function, typename Exact>
void expectUlps64(double budget, double low, double high, Function function, Exact exact) {
  double worst = 0, where = 0;
  constexpr int kSamples = 200000;
  for (int i = 0; i <= kSamples; ++i) {
    double x = low + (high - low) * (i / double(kSamples));
    double error = ulps(function(F64{x}).value, exact(static_cast<long double>(x)));
    if (error > worst)
      worst = error, where = x;
  }
  EXPECT_LE(worst, budget) << "at " << where;
  std::printf("worst %.3f ULP at %g\n", worst, where);
}

TEST(Functions32, Exp) {
  expectUlps32(2, [](F32 x) { return exp(x); }, [](double x) { return std::exp(x); });
}
TEST(Functions32, Exp2) {
  expectUlps32(2, [](F32 x) { return exp2(x); }, [](double x) { return std::exp2(x); });
}
TEST(Functions32, ExpOfNonPositive) {
  for (uint64_t i = 0; i <= 0xffffffffu; i += kStride) {
    float x = std::bit_cast<float>(static_cast<uint32_t>(i));
    if (x > 0)
      continue;
    float expected = exp(F32{x}).value, got = expOfNonPositive(F32{x}).value;
    ASSERT_TRUE(std::isnan(x) ? std::isnan(got) && std::isnan(expected)
                              : std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(expected))
        << x << ": " << got << ", not " << expected;
  }
}
TEST(Functions32, Log) {
  expectUlps32(1, [](F32 x) { return log(x); }, [](double x) { return std::log(x); });
}
TEST(Functions32, Expm1) {
  expectUlps32(2, [](F32 x) { return expm1(x); }, [](double x) { return std::expm1(x); });
}
TEST(Functions32, Log1p) {
  expectUlps32(1, [](F32 x) { return log1p(x); }, [](double x) { return std::log1p(x); });
}
TEST(Functions32, SinCos) {
  expectUlps32(
      1, [](F32 x) { return sinQuarterOfSingle(x, 0); }, [](double x) { return std::sin(x); });
  expectUlps32(
      1, [](F32 x) { return sinQuarterOfSingle(x, 1); }, [](double x) { return std::cos(x); });
  EXPECT_TRUE(std::signbit(sinQuarterOfSingle(F32{-0.0f}, 0).value));
}
// Where the reduced argument cancels most: the floats beside each multiple of pi/2.
TEST(Functions32, SinCosBesideMultiplesOfHalfPi) {
  double worst = 0;
  for (int n = 1; n < 24000; ++n) {
    float x = static_cast<float>(n * 1.57079632679489661923);
    for (float y : {x, std::nextafter(x, 0.0f), std::nextafter(x, 1e9f), -x}) {
      worst = std::max(worst,
                       ulps(sinQuarterOfSingle(F32{y}, 0).value, std::sin(static_cast<double>(y))));
      worst = std::max(worst,
                       ulps(sinQuarterOfSingle(F32{y}, 1).value, std::cos(static_cast<double>(y))));
    }
  }
  EXPECT_LE(worst, 1);
}
TEST(Functions32, Tanh) {
  expectUlps32(2, [](F32 x) { return tanh(x); }, [](double x) { return std::tanh(x); });
}
TEST(Functions32, Erf) {
  expectUlps32(2, [](F32 x) { return erf(x); }, [](double x) { return std::erf(x); });
}
TEST(Functions32, Erfc) {
  expectUlps32(3, [](F32 x) { return erfc(x); }, [](double x) { return std::erfc(x); });
}
TEST(Functions32, Gelu) {
  expectUlps32(
      4, [](F32 x) { return gelu(x); },
      [](double x) { return 0.5 * x * std::erfc(-x * 0.70710678118654752440); });
  EXPECT_TRUE(std::signbit(gelu(F32{-0.0f}).value));
  EXPECT_FALSE(std::signbit(gelu(F32{0.0f}).value));
  EXPECT_TRUE(std::isnan(gelu(F32{-INFINITY}).value));
}
TEST(Functions32, Rsqrt) {
  expectUlps32(1, [](F32 x) { return rsqrt(x); }, [](double x) { return 1 / std::sqrt(x); });
}

TEST(Functions64, Exp) {
  expectUlps64(
      2, -750, 712, [](F64 x) { return exp(x); }, [](long double x) { return std::exp(x); });
  expectUlps64(2, -1, 1, [](F64 x) { return exp(x); }, [](long double x) { return std::exp(x); });
}
TEST(Functions64, Exp2) {
  for (double range : {1.0, 100.0, 1090.0})
    expectUlps64(
        2, -range, range, [](F64 x) { return exp2(x); }, [](long double x) { return exp2l(x); });
}
TEST(Functions64, ExpOfNonPositive) {
  for (double x = -760; x <= 0; x += 0.0037)
    ASSERT_EQ(expOfNonPositive(F64{x}).value, exp(F64{x}).value) << x;
  EXPECT_EQ(expOfNonPositive(F64{-INFINITY}).value, 0);
  EXPECT_TRUE(std::isnan(expOfNonPositive(F64{NAN}).value));
}
TEST(Functions64, Log) {
  expectUlps64(1, 0, 3, [](F64 x) { return log(x); }, [](long double x) { return std::log(x); });
  expectUlps64(
      1, 1e-308, 1e300, [](F64 x) { return log(x); }, [](long double x) { return std::log(x); });
  expectUlps64(
      1, 0, 1e-310, [](F64 x) { return log(x); }, [](long double x) { return std::log(x); });
}
TEST(Functions64, Tanh) {
  expectUlps64(
      2, -25, 25, [](F64 x) { return tanh(x); }, [](long double x) { return std::tanh(x); });
}
TEST(Functions64, Erf) {
  expectUlps64(2, -7, 7, [](F64 x) { return erf(x); }, [](long double x) { return std::erf(x); });
}
TEST(Functions64, Erfc) {
  expectUlps64(
      3, -7, 27.5, [](F64 x) { return erfc(x); }, [](long double x) { return std::erfc(x); });
  // Where it is furthest off.
  expectUlps64(
      3, 0.5, 2, [](F64 x) { return erfc(x); }, [](long double x) { return std::erfc(x); });
}
TEST(Functions64, Rsqrt) {
  expectUlps64(
      1, 1e-3, 1e3, [](F64 x) { return rsqrt(x); }, [](long double x) { return 1 / std::sqrt(x); });
}
TEST(Functions64, SinCos) {
  expectUlps64(
      1, -20, 20, [](F64 x) { return sinQuarter(x, 0); },
      [](long double x) { return std::sin(x); });
  expectUlps64(
      1, -20, 20, [](F64 x) { return sinQuarter(x, 1); },
      [](long double x) { return std::cos(x); });
  expectUlps64(
      1, -1e9, 1e9, [](F64 x) { return sinQuarter(x, 0); },
      [](long double x) { return std::sin(x); });
}

TEST(Functions64, Expm1) {
  expectUlps64(
      2, -45, 712, [](F64 x) { return expm1(x); }, [](long double x) { return std::expm1(x); });
  expectUlps64(
      2, -1, 1, [](F64 x) { return expm1(x); }, [](long double x) { return std::expm1(x); });
}
TEST(Functions64, Log1p) {
  expectUlps64(
      1, -1, 3, [](F64 x) { return log1p(x); }, [](long double x) { return std::log1p(x); });
  expectUlps64(
      1, -1e-8, 1e-8, [](F64 x) { return log1p(x); }, [](long double x) { return std::log1p(x); });
  expectUlps64(
      1, 1, 1e300, [](F64 x) { return log1p(x); }, [](long double x) { return std::log1p(x); });
}
TEST(Functions64, SinCosOfLargeNumbers) {
  // All exponents from where the other reduction takes over.
  for (double x = 1e9; std::isfinite(x); x *= -1.7) {
    EXPECT_LE(ulps(sinQuarter(F64{x}, 0).value, std::sin(static_cast<long double>(x))), 1) << x;
    EXPECT_LE(ulps(sinQuarter(F64{x}, 1).value, std::cos(static_cast<long double>(x))), 1) << x;
  }
  EXPECT_TRUE(std::isnan(sinQuarter(F64{INFINITY}, 0).value));
  EXPECT_TRUE(std::signbit(sinQuarter(F64{-0.0}, 0).value));
}
// The smaller coordinate over the larger one takes all values, in all octants, at any size.
template <typename F, typename T> double worstAtan2() {
  double worst = 0;
  for (int i = 0; i <= 40000; ++i)
    for (T size : {T(1), T(1e-20), T(3e37), T(0.7)})
      for (int octant = 0; octant < 8; ++octant) {
        // Half of the quotients are evenly spread, the others are small.
        T quotient = i % 2 ? T(i / 40000.0) : T(std::exp2(-i / 800.0));
        T y = quotient * size, x = size;
        if (octant & 1)
          std::swap(x, y);
        if (octant & 2)
          x = -x;
        if (octant & 4)
          y = -y;
        long double exact = std::atan2(static_cast<long double>(y), static_cast<long double>(x));
        worst = std::max(worst, ulps(atan2(F{y}, F{x}).value, exact));
      }
  std::printf("worst %.3f ULP\n", worst);
  return worst;
}
TEST(Atan2, Accuracy) {
  EXPECT_LE((worstAtan2<F32, float>()), 2);
  EXPECT_LE((worstAtan2<F64, double>()), 2);
}
template <typename F, typename T> void expectAtan2Specials() {
  using Limits = std::numeric_limits<T>;
  const T values[] = {0,
                      T(-0.0),
                      1,
                      -1,
                      Limits::infinity(),
                      -Limits::infinity(),
                      Limits::quiet_NaN(),
                      Limits::max(),
                      -Limits::max(),
                      Limits::denorm_min(),
                      -Limits::denorm_min(),
                      Limits::min(),
                      T(0.5),
                      T(-0.5)};
  for (T y : values)
    for (T x : values) {
      T got = atan2(F{y}, F{x}).value;
      long double exact = std::atan2(static_cast<long double>(y), static_cast<long double>(x));
      EXPECT_LE(ulps(got, exact), 2)
          << "the angle of (" << y << ", " << x << ") is " << exact << ", got " << got;
      if (exact == 0)
        EXPECT_EQ(std::signbit(exact), std::signbit(got)) << y << ", " << x;
    }
}
TEST(Atan2, Specials) {
  expectAtan2Specials<F32, float>();
  expectAtan2Specials<F64, double>();
}

template <typename F, typename T> void expectZerosKeepTheirSigns() {
  for (T zero : {T(0), T(-0.0)}) {
    EXPECT_EQ(std::signbit(tanh(F{zero}).value), std::signbit(zero));
    EXPECT_EQ(std::signbit(expm1(F{zero}).value), std::signbit(zero));
    EXPECT_EQ(std::signbit(log1p(F{zero}).value), std::signbit(zero));
    EXPECT_EQ(std::signbit(erf(F{zero}).value), std::signbit(zero));
  }
}
TEST(Functions, ZerosKeepTheirSigns) {
  expectZerosKeepTheirSigns<F32, float>();
  expectZerosKeepTheirSigns<F64, double>();
}

TEST(Functions64, FmodIsExact) {
  const double values[] = {0.0,
                           -0.0,
                           1,
                           -1,
                           3,
                           -2.5,
                           0.1,
                           -0.7,
                           1e300,
                           -1e300,
                           1e-300,
                           5e-324,
                           4503599627370497.0,
                           1.7976931348623157e308,
                           6.02e23,
                           INFINITY,
                           -INFINITY,
                           NAN};
  for (double x : values)
    for (double y : values) {
      double exact = std::fmod(x, y), got = fmod(F64{x}, F64{y}).value;
      EXPECT_TRUE((std::isnan(exact) && std::isnan(got)) ||
                  (exact == got && std::signbit(exact) == std::signbit(got)))
          << x << " modulo " << y << " is " << exact << ", got " << got;
    }
  for (int i = 1; i < 100000; ++i) {
    double x = std::exp(i * 0.007 - 350) * (i % 2 ? 1 : -1),
           y = std::sin(i) * std::exp(i * 0.003 - 200);
    ASSERT_EQ(fmod(F64{x}, F64{y}).value, std::fmod(x, y)) << x << " modulo " << y;
  }
}

template <typename Lane, typename T> void expectSpecialPowers(std::initializer_list<T> values) {
  for (T x : values)
    for (T y : values) {
      T exact = std::pow(x, y), got = pow(Lane{x}, Lane{y}).value;
      EXPECT_LE(ulps(got, static_cast<long double>(exact)), 4)
          << x << " to the power of " << y << " is " << exact << ", got " << got;
      if (exact == 0)
        EXPECT_EQ(std::signbit(exact), std::signbit(got)) << x << " to the power of " << y;
    }
}
TEST(Pow, Specials) {
  expectSpecialPowers<F64, double>({0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1e300, -1e300,
                                    1e-300, INFINITY, -INFINITY, NAN, 9007199254740993.0, 5e-324});
  expectSpecialPowers<F32, float>({0.0f, -0.0f, 1, -1, 2, -2, 3, -3, 0.5f, -0.5f, 1e30f, -1e30f,
                                   1e-30f, INFINITY, -INFINITY, NAN, 16777217.0f, 1e-45f});
}
TEST(Pow, Accuracy) {
  double worst = 0;
  for (int i = 1; i < 700; ++i)
    for (int j = -300; j < 300; ++j) {
      double x = std::exp(i * 0.02 - 7), y = j * 0.37;
      worst =
          std::max(worst, ulps(pow(F64{x}, F64{y}).value,
                               std::pow(static_cast<long double>(x), static_cast<long double>(y))));
      double z = std::pow(1.0000001, i), big = j * 1e5;
      worst = std::max(worst,
                       ulps(pow(F64{z}, F64{big}).value,
                            std::pow(static_cast<long double>(z), static_cast<long double>(big))));
    }
  std::printf("worst %.3f ULP\n", worst);
  EXPECT_LE(worst, 4);
}

TEST(Pow, SinglesAreRoundedOnce) {
  double worst = 0;
  auto look = [&](float x, float y) {
    double exact = std::pow(static_cast<double>(x), static_cast<double>(y));
    worst = std::max(worst, ulps(pow(F32{x}, F32{y}).value, exact));
  };
  for (int i = 1; i < 700; ++i)
    for (int j = -300; j < 300; ++j) {
      look(static_cast<float>(std::exp(i * 0.02 - 7)), static_cast<float>(j * 0.37));
      look(static_cast<float>(std::pow(1.00001, i)), static_cast<float>(j * 100));
      look(static_cast<float>(i) * 1e-44f, static_cast<float>(j * 0.01)); // denormals
    }
  std::printf("worst %.3f ULP\n", worst);
  EXPECT_LE(worst, 0.6);
}

} // namespace
} // namespace weft::compiler::math
