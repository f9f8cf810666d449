// Elementwise functions that are compositions: how near to the exact value they are, to the ends of
// their domains; integers, signed zeros, special numbers, errors.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/support/errors.h"

namespace weft {
namespace {

using testing_support::message_of;

using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

struct Function {
  const char *name;
  std::function<Tensor(const Tensor &)> ours;
  std::function<long double(long double)> exact;
  double low, high;
  double ulps; // the roundings of the composition
};

// By halving, then Newton's steps, with erfc where 1 - x is exact.
long double exact_erfinv(long double x) {
  long double a = std::abs(x), low = 0, high = 7;
  if (a == 0)
    return x;
  auto above = [&](long double y) {
    return a < 0.5L ? std::erf(y) - a : (1 - a) - std::erfc(y);
  };
  for (int i = 0; i < 40; ++i)
    (above((low + high) / 2) < 0 ? low : high) = (low + high) / 2;
  long double y = (low + high) / 2;
  for (int i = 0; i < 4; ++i)
    y -= above(y) / (2 / std::sqrt(std::acos(-1.0L)) * std::exp(-y * y));
  return std::copysign(y, x);
}

const std::vector<Function> kFunctions = {
    {"erfc", [](const Tensor &x) { return erfc(x); }, [](long double x) { return std::erfc(x); },
     -3, 9, 4},
    {"erfinv", [](const Tensor &x) { return erfinv(x); }, exact_erfinv, -1, 1, 6},
    {"atan", [](const Tensor &x) { return atan(x); }, [](long double x) { return std::atan(x); },
     -50, 50, 3},
    {"asin", [](const Tensor &x) { return asin(x); }, [](long double x) { return std::asin(x); },
     -1, 1, 4},
    {"acos", [](const Tensor &x) { return acos(x); }, [](long double x) { return std::acos(x); },
     -1, 1, 4},
    {"asinh", [](const Tensor &x) { return asinh(x); }, [](long double x) { return std::asinh(x); },
     -20, 20, 5},
    {"acosh", [](const Tensor &x) { return acosh(x); }, [](long double x) { return std::acosh(x); },
     1, 20, 5},
    {"atanh", [](const Tensor &x) { return atanh(x); }, [](long double x) { return std::atanh(x); },
     -1, 1, 5},
};

// The worst error in units in the last place over numbers spread evenly, and ever nearer to each
// end and to 0.
template <typename T> void expect_accurate(const Function &f, std::vector<T> points = {}) {
  for (int i = 1; i < 2000; ++i)
    points.push_back(static_cast<T>(f.low + (f.high - f.low) * i / 2000));
  for (int i = 1; i < 20; ++i) {
    T small = std::ldexp(T(1.1), -i);
    for (T x : {T(f.low) + small, T(f.high) - small, small, -small})
      if (x > f.low && x < f.high)
        points.push_back(x);
  }
  Tensor result = f.ours(Tensor::from<T>(points, {static_cast<int64_t>(points.size())}));
  std::vector<T> values = result.to_vector<T>();
  for (size_t i = 0; i < points.size(); ++i) {
    long double exact = f.exact(static_cast<long double>(points[i]));
    T size = std::abs(static_cast<T>(exact));
    long double unit = std::nextafter(size, std::numeric_limits<T>::infinity()) - size;
    ASSERT_LE(std::abs(values[i] - exact), f.ulps * unit)
        << f.name << "(" << points[i] << ") is " << exact << ", got " << values[i];
  }
}

TEST(Numbers, InverseFunctionsAreAccurateToTheEnds) {
  for (const Function &f : kFunctions) {
    expect_accurate<float>(f);
    expect_accurate<double>(f);
  }
  std::vector<double> near_one;
  for (int i = 20; i <= 53; ++i)
    near_one.insert(near_one.end(), {1 - std::ldexp(1.0, -i), std::ldexp(1.0, -i) - 1});
  expect_accurate<double>(kFunctions[1], near_one); // erfinv
}

TEST(Numbers, SpecialNumbers) {
  EXPECT_EQ(atan(tensor({kInf, -kInf})).to_vector<float>(),
            (Floats{float(M_PI_2), float(-M_PI_2)}));
  EXPECT_EQ(
      atan2(tensor({0.f, -0.f, 0.f, kInf}), tensor({-0.f, -1.f, 1.f, -kInf})).to_vector<float>(),
      (Floats{float(M_PI), float(-M_PI), 0, float(3 * M_PI_4)}));
  EXPECT_EQ(asin(tensor({1.f, -1.f})).to_vector<float>(), (Floats{float(M_PI_2), float(-M_PI_2)}));
  EXPECT_EQ(acos(tensor({1.f, -1.f})).to_vector<float>(), (Floats{0, float(M_PI)}));
  for (const Tensor &nan : {asin(tensor({1.5f})), acos(tensor({-2.f})), acosh(tensor({0.5f})),
                            atanh(tensor({2.f})), asinh(tensor({kNan}))})
    EXPECT_TRUE(std::isnan(nan.item<float>()));
  EXPECT_EQ(asinh(tensor({kInf, -kInf, 0.f})).to_vector<float>(), (Floats{kInf, -kInf, 0}));
  EXPECT_EQ(atanh(tensor({1.f, -1.f})).to_vector<float>(), (Floats{kInf, -kInf}));
  EXPECT_EQ(hypot(tensor({kInf, 3e38f, 0.f}), tensor({kNan, 0.f, 0.f})).to_vector<float>()[1],
            3e38f);
  EXPECT_EQ(xlogy(tensor({0.f, 0.f, 0.f}), tensor({0.f, -1.f, kInf})).to_vector<float>(),
            (Floats{0, 0, 0}));
  EXPECT_TRUE(std::isnan(xlogy(tensor({0.f}), tensor({kNan})).item<float>()));
  std::vector<float> signs = copysign(tensor({0.f, 2.f}), tensor({-0.f, -kInf})).to_vector<float>();
  EXPECT_TRUE(std::signbit(signs[0]));
  EXPECT_EQ(signs[1], -2.f);
  EXPECT_EQ(nan_to_num(tensor({kNan, kInf, -kInf})).to_vector<float>(),
            (Floats{0, std::numeric_limits<float>::max(), -std::numeric_limits<float>::max()}));
  EXPECT_EQ(nan_to_num(tensor({kInf}).to(float16)).item<float>(), 65504.f);
  EXPECT_EQ(erfinv(tensor({1.f, -1.f, 0.f})).to_vector<float>(), (Floats{kInf, -kInf, 0}));
  EXPECT_TRUE(std::isnan(erfinv(tensor({1.5f})).item<float>()));
  EXPECT_EQ(lgamma(tensor({kInf, -kInf, 0.f, -3.f, 1.f, 2.f})).to_vector<float>(),
            (Floats{kInf, kInf, kInf, kInf, 0, 0}));
  EXPECT_EQ(digamma(tensor({kInf, 0.f, -0.f})).to_vector<float>(), (Floats{kInf, -kInf, kInf}));
  EXPECT_EQ(polygamma(1, tensor({kInf, 0.f})).to_vector<float>(), (Floats{0, kInf}));
  for (const Tensor &nan :
       {lgamma(tensor({kNan})), digamma(tensor({kNan})), digamma(tensor({-2.f}))})
    EXPECT_TRUE(std::isnan(nan.item<float>()));
  EXPECT_EQ(pow(tensor({-kInf}), 0.5).item<float>(), kInf);
  EXPECT_EQ(pow(tensor({-kInf}).to(bfloat16), 0.5).item<float>(), kInf);
  EXPECT_EQ(pow(tensor({-kInf, -kInf}), tensor({0.5f, -0.5f})).to_vector<float>(),
            (Floats{kInf, 0}));
  EXPECT_EQ(erfc(tensor({kInf, -kInf, 30.f})).to_vector<float>(), (Floats{0, 2, 0}));
  EXPECT_EQ(signbit(tensor({-0.f, 0.f, -2.f, kInf})).to_vector<bool>(),
            (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(heaviside(tensor({-1.f, 0.f, kNan, 3.f}), 0.5).to_vector<float>(),
            (Floats{0, 0.5f, 0, 1}));
  EXPECT_EQ(sinc(tensor({0.f, 0.5f})).to_vector<float>(), (Floats{1, float(2 / M_PI)}));
  EXPECT_EQ(fmax(tensor({kNan, 1.f, 2.f}), tensor({1.f, kNan, 3.f})).to_vector<float>(),
            (Floats{1, 1, 3}));
  EXPECT_EQ(fmin(tensor({kNan, 1.f, 2.f}), tensor({1.f, kNan, 3.f})).to_vector<float>(),
            (Floats{1, 1, 2}));
  EXPECT_TRUE(std::isnan(fmax(tensor({kNan}), kNan).item<float>()));
  // Derivatives at poles and beside them.
  Tensor x = tensor({0.f}).requires_grad_();
  for (const Tensor &y : {atan(x), asin(x), asinh(x), atanh(x)})
    EXPECT_EQ(grad({y}, {x})[0].item<float>(), 1.f);
  EXPECT_EQ(grad({sinc(x)}, {x})[0].item<float>(), 0.f);
  // Higher ones at 0 and beside it, where quotients cancel.
  auto nth = [](const std::function<Tensor(const Tensor &)> &f, double at, int order) {
    Tensor z = tensor({at}).requires_grad_(), y = f(z);
    for (int i = 0; i < order; ++i)
      y = grad({y.sum()}, {z}, /*create_graph=*/true)[0];
    return y.item<double>();
  };
  auto sinc_of = [](const Tensor &z) {
    return sinc(z);
  };
  auto asinh_of = [](const Tensor &z) {
    return asinh(z);
  };
  const double square = M_PI * M_PI;
  for (double at : {0.0, -0.0, 1e-8, -1e-8}) {
    EXPECT_NEAR(nth(sinc_of, at, 1), -square / 3 * at, 1e-22);
    EXPECT_NEAR(nth(sinc_of, at, 2), -square / 3, 1e-14);
    EXPECT_NEAR(nth(sinc_of, at, 3), square * square / 5 * at, 1e-14);
    EXPECT_NEAR(nth(asinh_of, at, 1), 1, 1e-15);
    EXPECT_NEAR(nth(asinh_of, at, 2), -at, 1e-14);
    EXPECT_NEAR(nth(asinh_of, at, 3), -1, 1e-14);
  }
  for (double at : {0.159, 0.1592, 0.3, 2.5}) // where the series ends, at 0.5 / pi, and behind
    EXPECT_NEAR(sinc(tensor({at})).item<double>(), std::sin(M_PI * at) / (M_PI * at), 3e-16);
  EXPECT_EQ(grad({erfc(x)}, {x})[0].item<float>(), float(-M_2_SQRTPI));
  EXPECT_EQ(grad({erfinv(x)}, {x})[0].item<float>(), float(1 / M_2_SQRTPI));
  EXPECT_EQ(grad({fmax(x, 0)}, {x})[0].item<float>(), 1.f); // of equal ones the first
  Tensor end = tensor({1.f}).requires_grad_();
  EXPECT_EQ(grad({asin(end)}, {end})[0].item<float>(), kInf);
  EXPECT_EQ(grad({acos(end)}, {end})[0].item<float>(), -kInf);
}

// Values of torch.logit's gradient.
TEST(Numbers, TheLogitHasNoDerivativeOutside) {
  Tensor x = tensor({-0.5f, 0.f, 0.5f, 1.f, 1.5f}).set_requires_grad();
  logit(x).sum().backward();
  std::vector<float> slopes = x.grad().to_vector<float>();
  EXPECT_TRUE(std::isnan(slopes[0]) && std::isnan(slopes[4]));
  EXPECT_EQ(std::vector<float>(slopes.begin() + 1, slopes.end() - 1),
            (std::vector<float>{INFINITY, 4, INFINITY}));
  x.zero_grad();
  logit(x, 0.25).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, 0, 4, 0, 0}));
}

TEST(Numbers, IntegersAndDTypes) {
  Tensor x = tensor<int64_t>({7, -7, 7, -7, 5}), y = tensor<int64_t>({3, 3, -3, -3, 0});
  EXPECT_EQ(fmod(x, y).to_vector<int64_t>(), (Ints{1, -1, 1, -1, 0}));
  EXPECT_EQ(fmod(tensor<int8_t>({5, -128}), tensor<int8_t>({-128, 3})).to_vector<int64_t>(),
            (Ints{5, -2}));
  EXPECT_EQ(atan2(x, y).dtype(), float32);
  EXPECT_EQ(atan(tensor<int64_t>({1})).item<float>(), float(M_PI_4));
  EXPECT_EQ(atan2(tensor({1.f}).to(bfloat16), 1).dtype(), bfloat16);
  EXPECT_EQ(frac(x).to_vector<int64_t>(), (Ints{0, 0, 0, 0, 0}));
  EXPECT_EQ(heaviside(x, 2).to_vector<int64_t>(), (Ints{1, 0, 1, 0, 1}));
  EXPECT_EQ(fmin(x, y).to_vector<int64_t>(), (Ints{3, -7, -3, -7, 0}));
  EXPECT_EQ(logspace(0, 3, 4).to_vector<float>(), (Floats{1, 10, 100, 1000}));
  EXPECT_EQ(logspace(0, 3, 4, 2, int64).to_vector<int64_t>(), (Ints{1, 2, 4, 8}));
  EXPECT_EQ(nan_to_num(x).dtype(), int64);
  EXPECT_EQ(count_nonzero(x).item<int64_t>(), 5);
  EXPECT_EQ(diff(tensor<int64_t>({1, 4, 9, 16}), 2).to_vector<int64_t>(), (Ints{2, 2}));
  EXPECT_EQ(kron(tensor<int64_t>({1, 2}), tensor<int64_t>({1, 10})).to_vector<int64_t>(),
            (Ints{1, 10, 2, 20}));
  Tensor unknown = full({1, 2}, NAN).set_requires_grad();
  Tensor product = addmm(unknown, ones({1, 3}), ones({3, 2}), /*beta=*/0.0);
  EXPECT_EQ(product.to_vector<float>(), (Floats{3, 3})) << "a factor of 0 leaves NaN out";
  product.sum().backward();
  EXPECT_EQ(unknown.grad().to_vector<float>(), (Floats{0, 0}));
  EXPECT_EQ(addmm(scalar(1), ones({2, 2}, int64), ones({2, 2}, int64)).to_vector<int64_t>(),
            (Ints{3, 3, 3, 3}));
}

TEST(Numbers, TheNearestPixelDoesNotDependOnTheGrid) {
  Tensor x = rand({1, 2, 4, 4}), grid = rand({1, 3, 3, 2}).set_requires_grad(true);
  grid_sample(x, grid, {.mode = Resize::kNearest}).sum().backward();
  EXPECT_EQ(grid.grad().to_vector<float>(), Floats(18, 0));
  EXPECT_EQ(arange(5, 5, -1).shape(), (Shape{0}));
}

TEST(Numbers, PReLULearnsItsSlope) {
  nn::PReLU layer(2);
  Tensor x = tensor({{-2.f, 3.f}, {1.f, -4.f}});
  EXPECT_EQ(layer(x).to_vector<float>(), (Floats{-0.5f, 3, 1, -1}));
  layer(x).sum().backward();
  EXPECT_EQ(layer.weight.grad().to_vector<float>(), (Floats{-2, -4}));
  EXPECT_EQ(layer.parameter_count(), 2);
  EXPECT_MESSAGE(layer(zeros({2, 3})), "weight must have one element, or one for each channel");
}

TEST(Numbers, Errors) {
  EXPECT_MESSAGE(cross(zeros({2}), zeros({2})),
                 "cross: x has shape [2], y has shape [2]: dimension 0 must be of size 3");
  EXPECT_MESSAGE(tensordot(zeros({2, 3}), zeros({2, 3}), 1),
                 "tensordot: x has shape [2, 3], y has shape [2, 3]");
  EXPECT_MESSAGE(addmm(zeros({3}), zeros({2, 3}), zeros({3, 2})), "addmm: ");
  EXPECT_MESSAGE(unflatten(zeros({6}), 0, {4, -1}),
                 "unflatten: sizes [4, -1] do not make up dimension 0 of shape [6]");
  EXPECT_MESSAGE(rot90(zeros({2, 2}), 1, {0, 0}), "are the same dimension");
  EXPECT_MESSAGE(take_along_dim(zeros({2, 3}), zeros({3, 1}, int64), 1), "take_along_dim: ");
  EXPECT_MESSAGE(fold(zeros({1, 5, 4}), 3, 2), "fold: x has shape [1, 5, 4]");
  EXPECT_MESSAGE(pixel_shuffle(zeros({1, 3, 2, 2}), 2), "a multiple of 4 channels");
  EXPECT_MESSAGE(grid_sample(zeros({1, 1, 2, 2}), zeros({2, 2, 2})), "grid must be [N, H', W', 2]");
  EXPECT_MESSAGE(arange(0, 5, -1), "arange: a step of -1 does not lead from 0 to 5");
  EXPECT_MESSAGE(arange(-3), "arange: a step of 1 does not lead from 0 to -3");
  EXPECT_MESSAGE(arange(0.0, -1e-7, 0.5), "a step of 0.5 does not lead from 0 to -1e-07");
  int64_t far = std::numeric_limits<int64_t>::max();
  EXPECT_MESSAGE(arange(far, far - 1), "a step of 1 does not lead");
  EXPECT_MESSAGE(glu(zeros({3})), "cannot be halved");
  EXPECT_MESSAGE(logspace(0, 1, -1), "logspace: steps is -1");
  EXPECT_MESSAGE(vector_norm(tensor<int64_t>({3})), "it must be floating");
}

// PyTorch's, of float64.
TEST(Numbers, GammaFunctions) {
  std::vector<double> at = {-2.5, -.3, .1, 1, 1.4616321, 2, 3.7, 30};
  struct {
    std::function<Tensor(const Tensor &)> ours;
    std::vector<double> expected;
  } cases[] = {
      {[](const Tensor &x) { return lgamma(x); },
       {-0.05624371649767405, 1.4648400508576025, 2.252712651734206, 0, -0.12148629053584863, 0,
        1.428072326665388, 71.25703896716801}},
      {[](const Tensor &x) { return digamma(x); },
       {1.1031566406452433, 2.1133097796353986, -10.423754940411076, -0.5772156649015328,
        -4.351463691969464e-08, 0.422784335098467, 1.1671535393615111, 3.384438132685525}},
      {[](const Tensor &x) { return polygamma(1, x); },
       {9.53924664493752, 13.945160267262267, 101.43329914989455, 1.6449340676383375,
        0.9676722857152831, 0.6449340670881899, 0.3100378577128614, 0.03389506035774027}},
  };
  for (auto &[ours, expected] : cases) {
    Tensor x = Tensor::from(at, {8});
    std::vector<double> wide = ours(x).to_vector<double>();
    std::vector<float> narrow = ours(x.to(float32)).to_vector<float>();
    for (size_t i = 0; i < at.size(); ++i) {
      EXPECT_NEAR(wide[i], expected[i], 2e-9 * std::abs(expected[i]) + 1e-15) << at[i];
      EXPECT_NEAR(narrow[i], expected[i], 1e-6 * std::abs(expected[i]) + 2e-7) << at[i];
    }
  }
  std::vector<double> second = polygamma(2, Tensor::from(std::vector<double>{.1, 1, 3.7, 30}, {4}))
                                   .to_vector<double>();
  std::vector<double> expected = {-2001.8614573783439, -2.404113806319188, -0.09539530872855405,
                                  -0.0011487652037285997};
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(second[i], expected[i], 1e-13 * std::abs(expected[i]));
  EXPECT_EQ(lgamma(tensor<int64_t>({5})).dtype(), float32);
  EXPECT_EQ(lgamma(ones({2}, float16)).dtype(), float16);
  EXPECT_MESSAGE(polygamma(-1, ones({2})), "n is -1; it must not be negative");
}

// Each is the derivative of the one before, on both sides of 0; near its zeros lgamma keeps digits.
TEST(Numbers, GammaFunctionsAreDerivativesOfEachOther) {
  Tensor x = Tensor::from(std::vector<double>{-3.3, -0.6, 0.2, 0.9, 2.4, 7.9, 8.1, 25}, {8});
  for (int64_t n = -1; n < 4; ++n) {
    auto f = [&](const Tensor &y) { return n < 0 ? lgamma(y) : polygamma(n, y); };
    Tensor leaf = x.detach().clone().requires_grad_();
    std::vector<double> slope = grad({f(leaf).sum()}, {leaf})[0].to_vector<double>();
    std::vector<double> difference = ((f(x + 1e-5) - f(x - 1e-5)) / 2e-5).to_vector<double>();
    for (size_t i = 0; i < slope.size(); ++i)
      EXPECT_NEAR(slope[i], difference[i], 1e-6 * (1 + std::abs(slope[i]))) << n << " " << i;
  }
  for (double at : {1.0, 2.0})
    for (double off : {1e-12, -1e-9, 1e-3}) {
      double exact = static_cast<double>(std::lgamma(static_cast<long double>(at + off)));
      EXPECT_NEAR(lgamma(full({1}, at + off, float64)).item<double>(), exact,
                  4e-16 * std::abs(exact))
          << at << " " << off;
    }
}

// A sum of exponentials has a derivative that cancels near 0.
TEST(Numbers, DerivativeOfCoshNearZero) {
  for (double at : {1e-3, 1e-5, 1e-8}) {
    Tensor x = scalar(float(at)).set_requires_grad(), wide = full({}, at, float64);
    wide.set_requires_grad();
    EXPECT_NEAR(grad({cosh(x)}, {x})[0].item<float>() / at, std::sinh(at) / at, 4e-7) << at;
    EXPECT_NEAR(grad({cosh(wide)}, {wide})[0].item<double>() / at, std::sinh(at) / at, 1e-15) << at;
  }
}

TEST(Numbers, LgammaAtTheEndsOfTheNegativeNumbers) {
  std::vector<double> x = {-1e-300, -1e-307, -5e-309, -1e-101, -1e-99, -3, -5e307, -1.5e308};
  std::vector<double> y = lgamma(Tensor::from(x, {8})).to_vector<double>();
  for (size_t i = 0; i < 5; ++i)
    EXPECT_NEAR(y[i], -std::log(-x[i]), 1e-12);
  for (size_t i = 5; i < x.size(); ++i)
    EXPECT_EQ(y[i], std::numeric_limits<double>::infinity()) << x[i];
}

TEST(Numbers, PromoteInAddcdiv) {
  Tensor x = arange(3), ones = weft::ones({3});
  EXPECT_EQ(addcdiv(x, ones, ones).to_vector<float>(), (Floats{1, 2, 3}));
  EXPECT_EQ(addcdiv(ones.to(float64), ones, x + 1).dtype(), float64);
  EXPECT_NE(message_of([&] { addcdiv(ones, x, x); }).find("a is int64 and b is int64"),
            std::string::npos);
}

TEST(Numbers, NormsOfNothing) {
  for (double p : {-1.0, -2.5})
    EXPECT_NE(message_of([&] { vector_norm(zeros({0, 3}), p, 0); }), "") << p;
  EXPECT_EQ(vector_norm(zeros({0, 3}), -1.0, 1).shape(), (Shape{0}));
  EXPECT_EQ(vector_norm(zeros({0, 3}), 3.0, 0).to_vector<float>(), (Floats{0, 0, 0}));
}

// As PyTorch: what the elements are counted by keeps its fraction, what they are made of does not.
TEST(Numbers, IntegersInFractionalSteps) {
  EXPECT_EQ(arange(1, -3, -1.5, int64).to_vector<int64_t>(), (Ints{1, 0, -1}));
  EXPECT_EQ(arange(0.5, 4.0, 1.0, int64).to_vector<int64_t>(), (Ints{0, 1, 2, 3}));
}

} // namespace
} // namespace weft
