// Elementwise functions of special numbers, and derivatives at 0, against PyTorch's
// (make_golden_special.py). What is not finite and the signs of zeros are the same.
#include <algorithm>
#include <limits>
#include <set>
#include <sstream>

#include "tests/golden/golden_file.h"

namespace weft::golden {
namespace {

const GoldenFile &file() {
  static const GoldenFile file("special.safetensors");
  return file;
}

struct Unary {
  const char *name;
  Tensor (*function)(const Tensor &x);
  double units = 4; // in the last place: the roundings of the composition
  // Cancels, in PyTorch as here: the error is of the size of x.
  bool cancels = false;
  double doubles = 0; // units of float64, if more
};

#define WEFT_PLAIN(name, ...) {#name, [](const Tensor &x) { return name(x); }, __VA_ARGS__}
const std::vector<Unary> kUnary = {
    WEFT_PLAIN(abs, 0),
    WEFT_PLAIN(neg, 0),
    WEFT_PLAIN(sign, 0),
    WEFT_PLAIN(floor, 0),
    WEFT_PLAIN(ceil, 0),
    WEFT_PLAIN(round, 0),
    WEFT_PLAIN(trunc, 0),
    WEFT_PLAIN(frac, 0),
    WEFT_PLAIN(reciprocal, 0),
    WEFT_PLAIN(square, 0),
    WEFT_PLAIN(sqrt, 1),
    WEFT_PLAIN(rsqrt),
    WEFT_PLAIN(exp),
    WEFT_PLAIN(exp2),
    WEFT_PLAIN(expm1),
    WEFT_PLAIN(log),
    WEFT_PLAIN(log2),
    WEFT_PLAIN(log10),
    WEFT_PLAIN(log1p),
    WEFT_PLAIN(sin),
    WEFT_PLAIN(cos),
    WEFT_PLAIN(tan),
    WEFT_PLAIN(asin),
    WEFT_PLAIN(acos),
    WEFT_PLAIN(atan),
    WEFT_PLAIN(sinh, 8),
    WEFT_PLAIN(cosh, 8),
    WEFT_PLAIN(tanh),
    WEFT_PLAIN(asinh, 5),
    WEFT_PLAIN(acosh, 6),
    WEFT_PLAIN(atanh, 5),
    WEFT_PLAIN(erf),
    WEFT_PLAIN(sigmoid),
    {"logit", [](const Tensor &x) { return logit(x); }},
    WEFT_PLAIN(rad2deg),
    WEFT_PLAIN(deg2rad),
    WEFT_PLAIN(relu, 0),
    WEFT_PLAIN(relu6, 0),
    {"hardtanh", [](const Tensor &x) { return hardtanh(x); }, 0},
    {"hardsigmoid", [](const Tensor &x) { return hardsigmoid(x); }, 4, true},
    {"hardswish", [](const Tensor &x) { return hardswish(x); }, 4, true},
    {"hardshrink", [](const Tensor &x) { return hardshrink(x); }, 0},
    {"softshrink", [](const Tensor &x) { return softshrink(x); }, 1},
    WEFT_PLAIN(softsign),
    WEFT_PLAIN(tanhshrink, 4, true),
    {"elu", [](const Tensor &x) { return elu(x); }},
    WEFT_PLAIN(selu),
    {"celu", [](const Tensor &x) { return celu(x); }},
    {"leaky_relu", [](const Tensor &x) { return leaky_relu(x); }},
    WEFT_PLAIN(silu),
    WEFT_PLAIN(mish, 8),
    WEFT_PLAIN(softplus),
    WEFT_PLAIN(log_sigmoid),
    {"gelu", [](const Tensor &x) { return gelu(x); }, 8, false, 2000},
    {"gelu_tanh", [](const Tensor &x) { return gelu(x, "tanh"); }, 16, false, 2000},
};
#undef WEFT_PLAIN

struct Binary {
  const char *name;
  Tensor (*function)(const Tensor &x, const Tensor &y);
  double units = 4;
};
#define WEFT_PLAIN(name, ...)                                                                      \
  {#name, [](const Tensor &x, const Tensor &y) { return name(x, y); }, __VA_ARGS__}
const std::vector<Binary> kBinary = {
    WEFT_PLAIN(add, 0),      WEFT_PLAIN(sub, 0),     WEFT_PLAIN(mul, 0),
    WEFT_PLAIN(div, 0),      WEFT_PLAIN(pow),        WEFT_PLAIN(remainder, 0),
    WEFT_PLAIN(fmod, 0),     WEFT_PLAIN(minimum, 0), WEFT_PLAIN(floor_divide, 1),
    WEFT_PLAIN(maximum, 0),  WEFT_PLAIN(atan2),      WEFT_PLAIN(hypot),
    WEFT_PLAIN(copysign, 0), WEFT_PLAIN(xlogy),      WEFT_PLAIN(logaddexp, 6),
};
#undef WEFT_PLAIN

// The sign of a zero is anybody's in these: PyTorch's depends on how it was vectorized.
const std::set<std::string> kAnyZero = {"relu",    "relu6",   "log_sigmoid",
                                        "minimum", "maximum", "xlogy"};

// Empty where `actual` is `expected` up to the units, which are those of `scale` where that is
// larger, with the same sign of a zero. A factor below the normal numbers has lost bits: what x
// makes of these is left out.
template <typename T>
std::string difference(T actual, T expected, double units, bool signed_zeros, T x = 1,
                       double scale = 0) {
  using Limits = std::numeric_limits<T>;
  double size = std::max(std::fabs(double(expected)), scale),
         lost = std::clamp(std::fabs(double(x)), 1.0, 1e3) * Limits::denorm_min();
  bool same = std::isnan(expected)   ? std::isnan(actual)
              : std::isinf(expected) ? actual == expected
              : expected == 0 && actual == 0
                  ? !signed_zeros || std::signbit(actual) == std::signbit(expected)
                  : std::fabs(double(actual) - double(expected)) <=
                        units * (Limits::epsilon() * size + lost);
  if (same)
    return "";
  std::ostringstream text;
  text.precision(Limits::max_digits10);
  text << actual << " instead of " << expected;
  return text.str();
}

template <typename T> void check_unary(const std::string &dtype) {
  Tensor x = file()[dtype + ".x"].clone().requires_grad_();
  std::vector<T> at = x.to_vector<T>();
  for (const Unary &f : kUnary) {
    Tensor y = f.function(x);
    std::vector<T> actual = y.to_vector<T>(), slope = grad({y.sum()}, {x})[0].to_vector<T>(),
                   expected = file()[dtype + "." + f.name].to_vector<T>(),
                   their_slope = file()[dtype + "_slope." + f.name].to_vector<T>();
    for (size_t i = 0; i < at.size(); ++i) {
      EXPECT_EQ(difference(actual[i], expected[i],
                           std::is_same_v<T, double> ? std::max(f.units, f.doubles) : f.units,
                           !kAnyZero.contains(f.name), at[i],
                           f.cancels ? std::fabs(double(at[i])) : 0),
                "")
          << f.name << "(" << at[i] << ")";
      EXPECT_TRUE(!std::isnan(slope[i]) || std::isnan(their_slope[i]) || std::isnan(expected[i]))
          << "the derivative of " << f.name << " at " << at[i] << " is " << their_slope[i];
    }
  }
}

TEST(SpecialNumbers, OfOneArgument) {
  check_unary<float>("float32");
  check_unary<double>("float64");
}

template <typename T> void check_binary(const std::string &dtype) {
  Tensor few = file()[dtype + ".few"];
  std::vector<T> at = few.to_vector<T>();
  for (const Binary &f : kBinary) {
    std::vector<T> actual = f.function(few.unsqueeze(1), few).template to_vector<T>(),
                   expected = file()[dtype + "." + f.name].to_vector<T>();
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(difference(actual[i], expected[i], f.units, !kAnyZero.contains(f.name)), "")
          << f.name << "(" << at[i / at.size()] << ", " << at[i % at.size()] << ")";
  }
}

TEST(SpecialNumbers, OfTwoArguments) {
  check_binary<float>("float32");
  check_binary<double>("float64");
}

using Inputs = std::vector<Tensor>;
const std::map<std::string, Tensor (*)(const Inputs &)> kAtZero = {
    {"std_constant", [](const Inputs &x) { return x[0].std(); }},
    {"std_rows", [](const Inputs &x) { return x[0].std(1); }},
    {"var_constant", [](const Inputs &x) { return x[0].var(); }},
    {"norm", [](const Inputs &x) { return x[0].norm(2, 1); }},
    {"norm_half", [](const Inputs &x) { return x[0].norm(0.5, 1); }},
    {"norm_1", [](const Inputs &x) { return x[0].norm(1, 1); }},
    {"norm_3", [](const Inputs &x) { return x[0].norm(3, 1); }},
    {"norm_inf", [](const Inputs &x) { return x[0].norm(INFINITY, 1); }},
    {"cdist", [](const Inputs &x) { return cdist(x[0], x[1]); }},
    {"normalize", [](const Inputs &x) { return normalize(x[0]); }},
    {"cosine", [](const Inputs &x) { return cosine_similarity(x[0], x[1]); }},
    {"hypot", [](const Inputs &x) { return hypot(x[0], x[1]); }},
    {"atan2", [](const Inputs &x) { return atan2(x[0], x[1]); }},
    {"logaddexp", [](const Inputs &x) { return logaddexp(x[0], x[1]); }},
    {"prod_all", [](const Inputs &x) { return x[0].prod(); }},
    {"prod_rows", [](const Inputs &x) { return x[0].prod(1); }},
    {"prod_columns", [](const Inputs &x) { return x[0].prod(0); }},
    {"cumprod", [](const Inputs &x) { return x[0].cumprod(0); }},
};

// PyTorch's, and finite where PyTorch's are NaN: a norm's at 0 are 0.
void expect_near(const Tensor &actual, const Tensor &expected, const char *what) {
  ASSERT_EQ(actual.shape(), expected.shape());
  std::vector<double> a = actual.to_vector<double>(), e = expected.to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(e[i]))
      EXPECT_TRUE(std::isfinite(a[i])) << what << " at " << i << ": " << a[i];
    else
      EXPECT_NEAR(a[i], e[i], 1e-13 * std::max(1.0, std::fabs(e[i]))) << what << " at " << i;
  }
}

// 1, 2, ... times the elements of x, in one sum.
Tensor weighted(const Tensor &x) {
  return (x * (arange(x.size(), float64) + 1).reshape(x.shape())).sum();
}

class AtZero : public testing::TestWithParam<std::string> {};

TEST_P(AtZero, FirstAndSecondDerivatives) {
  const std::string &name = GetParam();
  Inputs x;
  for (int i = 0; file().has(name + ".x" + std::to_string(i)); ++i)
    x.push_back(file()[name + ".x" + std::to_string(i)].clone().requires_grad_());
  Tensor y = kAtZero.at(name)(x);
  expect_near(y, file()[name + ".out"], "the value");
  Inputs first = grad({weighted(y)}, x, /*create_graph=*/true);
  Tensor total = scalar(0.0, float64);
  for (const Tensor &each : first)
    total = total + weighted(each);
  Inputs second(x.size());
  if (total.requires_grad())
    second = grad({total}, x, {.allow_unused = true});
  for (size_t i = 0; i < x.size(); ++i) {
    std::string by = std::to_string(i);
    expect_near(first[i], file()[name + ".first" + by], "the derivative");
    expect_near(second[i].defined() ? second[i] : zeros_like(x[i]), file()[name + ".second" + by],
                "the second derivative");
  }
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const auto &[name, function] : kAtZero)
    result.push_back(name);
  return result;
}
INSTANTIATE_TEST_SUITE_P(Functions, AtZero, testing::ValuesIn(names()),
                         [](const auto &info) { return info.param; });

} // namespace
} // namespace weft::golden
