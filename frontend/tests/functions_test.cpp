// Functions whose dtypes, special values, errors or cuts PyTorch's numbers (tests/golden) do not
// show.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/support/errors.h"

namespace weft {
namespace {

using testing_support::message_of;

using Bools = std::vector<bool>;
using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

Tensor range(const Shape &shape) {
  int64_t n = 1;
  for (int64_t size : shape)
    n *= size;
  return arange(n, float32).reshape(shape);
}

uint64_t cuts(CutReason reason) {
  return statistics().cuts[static_cast<int>(reason)];
}

TEST(Elementwise, IntegersStayWhereTheRecordTakesThem) {
  Tensor i = tensor<int32_t>({-3, 0, 5});
  EXPECT_EQ(sign(i).dtype(), int32);
  EXPECT_EQ(sign(i).to_vector<int64_t>(), (Ints{-1, 0, 1}));
  Tensor truth = tensor({true, false}), its_sign = sign(truth);
  EXPECT_EQ(its_sign.dtype(), boolean);
  EXPECT_EQ(square(truth).dtype(), int64);
  EXPECT_EQ(square(truth).to_vector<int64_t>(), (Ints{1, 0}));
  truth.zero_(); // sign() gives a tensor of its own
  EXPECT_EQ(its_sign.to_vector<bool>(), (std::vector<bool>{true, false}));
  EXPECT_EQ(floor(i).dtype(), int32);
  EXPECT_EQ(round(i).to_vector<int64_t>(), (Ints{-3, 0, 5}));
  EXPECT_EQ(sin(i).dtype(), float32);
  EXPECT_EQ(log1p(tensor<int32_t>({0})).item<float>(), 0);
  EXPECT_EQ(tensor({0.5f, 1.5f, -2.5f}).round().to_vector<float>(), (Floats{0, 2, -2}));
}

TEST(Elementwise, RemainderHasTheSignOfTheDivisor) {
  EXPECT_EQ((tensor<int64_t>({7, -7, 7, -7, 7}) % tensor<int64_t>({3, 3, -3, -3, 0}))
                .to_vector<int64_t>(),
            (Ints{1, 2, -2, -1, 0}));
  EXPECT_EQ(remainder(tensor({5.5f, -5.5f}), 2).to_vector<float>(), (Floats{1.5f, 0.5f}));
  EXPECT_TRUE(std::isnan(remainder(tensor({1.f}), 0.f).item<float>()));
}

// Each exponent at a line of its own, where it is a constant of the program.
TEST(Elementwise, SmallPowersOfMinusZero) {
  for (DType dtype : {float32, float64}) {
    Tensor x = tensor({-0.f}).to(dtype).eval();
    auto is = [](const Tensor &power, double value) {
      double got = power.item<double>();
      EXPECT_TRUE(got == value && !std::signbit(got)) << got << " instead of " << value;
    };
    is(pow(x, 0.5), 0);
    is(pow(x, 1.5), 0);
    is(pow(x, 2), 0);
    is(pow(x, -0.5), INFINITY);
    is(pow(x, -1.5), INFINITY);
    is(pow(x, -2), INFINITY);
  }
}

// Exponents that products, quotients and roots stand in for: values and derivatives are those of
// pow.
TEST(Elementwise, SmallPowers) {
  const double inf = INFINITY;
  std::vector<double> values = {-inf, -3, -1,  -0.0, 0.0,  1e-25, 1e-18,
                                0.3,  1,  2.7, 1e9,  1e25, inf,   NAN};
  for (DType dtype : {float32, float64})
    for (double exponent : {-2.0, -1.5, -1.0, -0.5, 0.5, 1.5, 2.0, 3.0}) {
      Tensor x = Tensor::from(values).to(dtype).requires_grad_();
      Tensor y = pow(x, exponent);
      std::vector<double> got = y.to_vector<double>(),
                          slope = grad({y.sum()}, {x})[0].to_vector<double>();
      auto expect = [&](double is, double at, double factor, double power) {
        auto in = [&](auto x) -> double {
          return static_cast<decltype(x)>(factor) * std::pow(x, static_cast<decltype(x)>(power));
        };
        double should = dtype == float32 ? in(static_cast<float>(at)) : in(at);
        if (std::isnan(should))
          EXPECT_TRUE(std::isnan(is)) << at << "^" << power;
        else if (std::isinf(should) || should == 0)
          EXPECT_EQ(is, should) << at << "^" << power;
        else
          EXPECT_NEAR(is, should, std::fabs(should) * (dtype == float32 ? 5e-7 : 1e-15))
              << at << "^" << power;
      };
      for (size_t i = 0; i < values.size(); ++i) {
        expect(got[i], values[i], 1, exponent);
        expect(slope[i], values[i], exponent, exponent - 1);
      }
    }
}

TEST(Elementwise, Bits) {
  Tensor a = tensor<int64_t>({12, -1}), b = tensor<int64_t>({10, 5});
  EXPECT_EQ((a & b).to_vector<int64_t>(), (Ints{8, 5}));
  EXPECT_EQ((a | b).to_vector<int64_t>(), (Ints{14, -1}));
  EXPECT_EQ((a ^ b).to_vector<int64_t>(), (Ints{6, -6}));
  EXPECT_EQ((~a).to_vector<int64_t>(), (Ints{-13, 0}));
  Tensor t = tensor({true, false, true}), f = tensor({false, false, true});
  EXPECT_EQ((t ^ f).to_vector<bool>(), (Bools{true, false, false}));
  EXPECT_EQ((~t).to_vector<bool>(), (Bools{false, true, false}));
  EXPECT_EQ(logical_xor(tensor({2.f, 0.f}), tensor({0.f, 0.f})).to_vector<bool>(),
            (Bools{true, false}));
  EXPECT_NE(message_of([] { bitwise_not(zeros({2})); }, ErrorKind::kDType), "");
}

TEST(Elementwise, Classification) {
  Tensor x = tensor({1.f, kInf, -kInf, kNan});
  EXPECT_EQ(is_nan(x).to_vector<bool>(), (Bools{false, false, false, true}));
  EXPECT_EQ(is_inf(x).to_vector<bool>(), (Bools{false, true, true, false}));
  EXPECT_EQ(is_finite(x).to_vector<bool>(), (Bools{true, false, false, false}));
  EXPECT_EQ(is_finite(tensor<int64_t>({1})).to_vector<bool>(), (Bools{true}));
  EXPECT_EQ(is_nan(tensor<int64_t>({1})).to_vector<bool>(), (Bools{false}));
}

TEST(Elementwise, ClampBoundsAndItsConstants) {
  Tensor x = tensor({-2.f, 0.f, 3.f, kNan});
  Floats clamped = clamp(x, -1, 1).to_vector<float>();
  EXPECT_EQ((Floats{clamped[0], clamped[1], clamped[2]}), (Floats{-1, 0, 1}));
  EXPECT_TRUE(std::isnan(clamped[3]));
  EXPECT_EQ(clamp(tensor<int64_t>({1, 9}), 3, {}).to_vector<int64_t>(), (Ints{3, 9}));
  EXPECT_EQ(clamp(tensor({0.f, 5.f}), 4, 2).to_vector<float>(), (Floats{2, 2}))
      << "where the bounds cross, max wins";
  EXPECT_NE(message_of([&] { clamp(x, std::nullopt); }, ErrorKind::kValue), "");
  // A third value of a bound compiles nothing new.
  auto with = [&](double bound) {
    return clamp(range({3}), bound, 2.0).to_vector<float>()[0];
  };
  EXPECT_EQ(with(0.5), 0.5f);
  EXPECT_EQ(with(0.25), 0.25f);
  uint64_t compiled = statistics().compiles;
  EXPECT_EQ(with(0.75), 0.75f);
  EXPECT_EQ(statistics().compiles, compiled);
}

// Numbers: of clamp of PyTorch 2.15.
TEST(Elementwise, ClampByNaN) {
  auto of_nans = [](const Tensor &x) {
    std::vector<float> values = x.to_vector<float>();
    return std::count_if(values.begin(), values.end(), [](float v) { return std::isnan(v); });
  };
  for (DType dtype : {float32, bfloat16}) {
    Tensor x = tensor({-2.f, 0.f, 2.f}).to(dtype).requires_grad_();
    Tensor nans = full({3}, kNan).to(dtype);
    for (Tensor y : {clamp(x, kNan), clamp(x, {}, kNan), clamp(x, kNan, 1), clamp(x, -1, kNan),
                     clamp(x.detach(), kNan), clamp(x.detach(), -1, kNan)}) {
      EXPECT_EQ(y.dtype(), dtype);
      EXPECT_EQ(of_nans(y), 3) << y;
      if (y.requires_grad())
        EXPECT_EQ(grad({sum(y)}, {x})[0].to_vector<float>(), (Floats{0, 0, 0}));
    }
    for (Tensor y : {clamp(x, nans, Tensor()), clamp(x, Tensor(), nans), clamp(x, nans, x),
                     clamp(x, x, nans), clamp(x, nans[0], Tensor())})
      EXPECT_EQ(of_nans(y), 3) << y;
  }
  EXPECT_EQ(of_nans(clamp(tensor<int64_t>({1, 2}), kNan)), 2);
}

TEST(Elementwise, ClampsDerivative) {
  Tensor x = tensor({-2.f, -1.f, 0.f, 1.f, 2.f, kNan}).requires_grad_();
  auto gradients = [](const Tensor &y, const std::vector<Tensor> &of) {
    std::vector<Floats> result;
    for (const Tensor &g : grad({sum(y)}, of))
      result.push_back(g.to_vector<float>());
    return result;
  };
  using All = std::vector<Floats>;
  // By numbers: none at a bound, nor at NaN.
  EXPECT_EQ(gradients(clamp(x, -1, 1), {x}), (All{{0, 0, 1, 0, 0, 0}}));
  EXPECT_EQ(gradients(clamp(x, -1), {x}), (All{{0, 0, 1, 1, 1, 0}}));
  EXPECT_EQ(gradients(clamp(x, {}, 1), {x}), (All{{1, 1, 1, 0, 0, 0}}));
  EXPECT_EQ(gradients(clamp(x, 1, -1), {x}), (All{{0, 0, 0, 0, 0, 0}}));
  EXPECT_EQ(gradients(clamp(x, 1, 1), {x}), (All{{0, 0, 0, 0, 0, 0}}));
  EXPECT_EQ(gradients(hardtanh(x), {x}), (All{{0, 0, 1, 0, 0, 1}}));
  Tensor first = grad({sum(square(clamp(x, -1, 1)))}, {x}, true)[0];
  EXPECT_EQ(first.to_vector<float>(), (Floats{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(gradients(first, {x}), (All{{0, 0, 2, 0, 0, 0}}));
  // By tensors: a bound and x share it.
  Tensor low = full({6}, -1.f).requires_grad_(), high = full({6}, 1.f).requires_grad_();
  EXPECT_EQ(gradients(clamp(x, low, Tensor()), {x, low}),
            (All{{0, .5, 1, 1, 1, 1}, {1, .5, 0, 0, 0, 1}}));
  EXPECT_EQ(gradients(clamp(x, Tensor(), high), {x, high}),
            (All{{1, 1, 1, .5, 0, 1}, {0, 0, 0, .5, 1, 1}}));
  Tensor y = tensor({-2.f, -1.f, 0.f, 1.f, 2.f, 0.f}).requires_grad_();
  EXPECT_EQ(gradients(clamp(y, low, high), {y, low, high}),
            (All{{0, .5, 1, .5, 0, 1}, {1, .5, 0, 0, 0, 0}, {0, 0, 0, .5, 1, 0}}));
  EXPECT_EQ(gradients(clamp(y, high, low), {y, high, low}),
            (All{{0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1}}));
  EXPECT_EQ(gradients(clamp(y, scalar(-1.f), scalar(1.f)), {y}), (All{{0, .5, 1, .5, 0, 1}}));
}

// Values, first and second derivatives of PyTorch 2.15 at -1, -0, 0, 1 and NaN.
TEST(Activations, ExponentialUnitsAtZero) {
  struct Case {
    const char *name;
    std::function<Tensor(const Tensor &)> f;
    Floats value, first, second;
  };
  const float e = std::exp(-1.f), h = std::exp(-0.5f), slope = 1.7580993175506592f,
              scale = 1.0507010221481323f;
  for (const Case &c : std::vector<Case>{
           {"elu", [](auto &x) { return elu(x); }, {e - 1, -0.f, 0, 1}, {e, 1, 1, 1}, {e, 0, 0, 0}},
           {"elu, alpha 2",
            [](auto &x) { return elu(x, 2); },
            {2 * (e - 1), -0.f, 0, 1},
            {2 * e, 2, 2, 1},
            {2 * e, 0, 0, 0}},
           {"celu, alpha 2",
            [](auto &x) { return celu(x, 2); },
            {2 * (h - 1), -0.f, 0, 1},
            {h, 1, 1, 1},
            {h / 2, 0, 0, 0}},
           {"selu",
            [](auto &x) { return selu(x); },
            {slope * (e - 1), -0.f, 0, scale},
            {slope * e, slope, slope, scale},
            {slope * e, 0, 0, 0}}}) {
    SCOPED_TRACE(c.name);
    Tensor x = tensor({-1.f, -0.f, 0.f, 1.f, kNan}).requires_grad_();
    Tensor y = c.f(x), first = grad({sum(y)}, {x}, true)[0];
    Floats second = grad({sum(first)}, {x})[0].to_vector<float>();
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_FLOAT_EQ(y.to_vector<float>()[i], c.value[i]) << i;
      EXPECT_FLOAT_EQ(first.to_vector<float>()[i], c.first[i]) << i;
      EXPECT_FLOAT_EQ(second[i], c.second[i]) << i;
    }
    EXPECT_TRUE(std::signbit(y.to_vector<float>()[1]));
    EXPECT_TRUE(std::isnan(y.to_vector<float>()[4]));
    EXPECT_FLOAT_EQ(first.to_vector<float>()[4], c.first[3]);
  }
}

TEST(Activations, FarFromZero) {
  Tensor x = tensor({-200.f, 200.f}).requires_grad_();
  for (auto *f : {&log_sigmoid, &mish, &silu}) {
    Tensor y = (*f)(x, Location::current());
    for (float value : y.to_vector<float>())
      EXPECT_TRUE(std::isfinite(value));
    for (float value : grad({sum(y)}, {x})[0].to_vector<float>())
      EXPECT_TRUE(std::isfinite(value));
  }
  EXPECT_EQ(grad({sum(elu(x))}, {x})[0].to_vector<float>(), (Floats{0, 1}));
  EXPECT_EQ(softplus(x).to_vector<float>(), (Floats{0, 200}));
}

TEST(Reductions, DtypesAndEmpties) {
  Tensor b = tensor({{true, false}, {true, true}});
  EXPECT_EQ(any(b, 1).to_vector<bool>(), (Bools{true, true}));
  EXPECT_EQ(all(b, 1).to_vector<bool>(), (Bools{false, true}));
  EXPECT_EQ(all(b, 0, true).shape(), (Shape{1, 2}));
  EXPECT_EQ(any(zeros({0, 2}), 0).to_vector<bool>(), (Bools{false, false}));
  EXPECT_EQ(all(zeros({0, 2}), 0).to_vector<bool>(), (Bools{true, true}));
  EXPECT_TRUE(any(tensor({0.f, kNan})).item<bool>());
  EXPECT_EQ(max(b).to_vector<bool>(), (Bools{true}));
  EXPECT_EQ(min(b, 1).to_vector<bool>(), (Bools{false, true}));
  EXPECT_EQ(prod(tensor<int32_t>({2, 3})).dtype(), int64);
  EXPECT_EQ(prod(zeros({0})).item<float>(), 1);
  EXPECT_EQ(cumsum(tensor({true, true, false}), 0).to_vector<int64_t>(), (Ints{1, 2, 2}));
  EXPECT_EQ(cumsum(scalar(3.f), 0).item<float>(), 3);
  EXPECT_EQ(min(tensor<int32_t>({INT32_MIN, 3})).item<int32_t>(), INT32_MIN);
  EXPECT_TRUE(std::isnan(min(tensor({1.f, kNan})).item<float>()));
}

TEST(Reductions, ArgmaxIsTheFirst) {
  Tensor x = tensor({{1.f, 3.f, 3.f}, {kNan, 5.f, kNan}, {-kInf, -kInf, -kInf}});
  uint64_t before = statistics().cuts[static_cast<int>(CutReason::kValue)];
  Tensor largest = argmax(x, 1), smallest = x.argmin(1, true);
  EXPECT_EQ(statistics().cuts[static_cast<int>(CutReason::kValue)], before)
      << "nothing is computed on the host";
  EXPECT_EQ(largest.to_vector<int64_t>(), (Ints{1, 0, 0}));
  EXPECT_EQ(smallest.shape(), (Shape{3, 1}));
  EXPECT_EQ(smallest.to_vector<int64_t>(), (Ints{0, 0, 0}));
  EXPECT_EQ(argmax(x).item<int64_t>(), 3);
  EXPECT_EQ(argmax(range({2, 3}), {}, true).shape(), (Shape{1, 1}));
  EXPECT_EQ(argmin(tensor<int64_t>({4, INT64_MIN, INT64_MIN})).item<int64_t>(), 1);
  EXPECT_EQ(argmax(scalar(2.f)).item<int64_t>(), 0);
  EXPECT_NE(message_of([] { argmax(zeros({0, 3}), 0); }, ErrorKind::kShape).find("[0, 3]"),
            std::string::npos);
}

TEST(Movement, PaddingAndRepeats) {
  Tensor x = range({2, 3});
  EXPECT_EQ(pad(x, {1, 0}, PadMode::kReplicate).to_vector<float>(),
            (Floats{0, 0, 1, 2, 3, 3, 4, 5}));
  EXPECT_EQ(pad(x, {0, 1}, PadMode::kConstant, 9).to_vector<float>(),
            (Floats{0, 1, 2, 9, 3, 4, 5, 9}));
  EXPECT_EQ(pad(tensor<int64_t>({1, 2, 3}), {2, 2}, PadMode::kReflect).to_vector<int64_t>(),
            (Ints{3, 2, 1, 2, 3, 2, 1}));
  EXPECT_NE(
      message_of([&] { pad(x, {3, 0}, PadMode::kReflect); }, ErrorKind::kShape).find("reflection"),
      std::string::npos);
  EXPECT_NE(message_of([&] { pad(x, {1}); }, ErrorKind::kValue), "");
  EXPECT_NE(message_of([&] { pad(x, {-2, -2}); }, ErrorKind::kShape), "");
  EXPECT_NE(message_of([&] { pad(x, {-INT64_MAX, -INT64_MAX}); }, ErrorKind::kShape), "");
  EXPECT_EQ(repeat_interleave(x, 2).to_vector<float>(),
            (Floats{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}));
  EXPECT_EQ(repeat(tensor({1.f, 2.f}), {2, 1, 2}).shape(), (Shape{2, 1, 4}));
  // A copy, unlike a slice with a negative step.
  Tensor flipped = x.flip({0});
  flipped.zero_();
  EXPECT_EQ(x.to_vector<float>()[5], 5);
}

TEST(TensorIndexing, ReadsAsPyTorchDoes) {
  Tensor x = range({3, 4});
  Tensor rows = tensor<int64_t>({2, -1, 0});
  EXPECT_EQ(x.index({rows}).shape(), (Shape{3, 4}));
  EXPECT_EQ(x.index({Ellipsis, tensor<int32_t>({1, 1})}).to_vector<float>(),
            (Floats{1, 1, 5, 5, 9, 9}));
  EXPECT_EQ(x.index({rows, tensor<int64_t>({0, 1, -1})}).to_vector<float>(), (Floats{8, 9, 3}));
  EXPECT_EQ(x.index({rows.unsqueeze(1), tensor<int64_t>({0, 1})}).shape(), (Shape{3, 2}));
  EXPECT_EQ(x.index({1, tensor<int64_t>({3, 0})}).to_vector<float>(), (Floats{7, 4}));
  EXPECT_EQ(x.index({None, Slice(1), rows}).shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(
      range({2, 3, 4}).index({tensor<int64_t>({0, 1}), Slice(), tensor<int64_t>({1, 2})}).shape(),
      (Shape{2, 3}));
  EXPECT_EQ(x.index({zeros({0}, int64)}).shape(), (Shape{0, 4}));
}

// One image or signal is a batch of one, and so is the result.
TEST(Images, WithoutABatch) {
  Tensor image = range({3, 5, 5}), signal = range({3, 5});
  Tensor weight = range({4, 3, 3, 3}), row = range({4, 3, 3}), back = range({3, 2, 3, 3});
  auto same = [](const Tensor &x, auto function) {
    Tensor alone = function(x), batch = function(x.unsqueeze(0));
    EXPECT_EQ(batch.size(0), 1);
    EXPECT_TRUE(equal(alone, batch.squeeze(0)));
    EXPECT_EQ(alone.ndim(), batch.ndim() - 1);
  };
  same(image, [&](const Tensor &x) { return conv2d(x, weight, ones({4})); });
  same(image, [&](const Tensor &x) { return conv_transpose2d(x, back, {}, {.stride = 2}); });
  same(image, [&](const Tensor &x) { return max_pool2d(x, 2); });
  same(image, [&](const Tensor &x) { return max_pool2d_with_indices(x, 2).second; });
  same(image, [&](const Tensor &x) { return avg_pool2d(x, 2); });
  same(image, [&](const Tensor &x) { return adaptive_avg_pool2d(x, {2, 3}); });
  same(image, [&](const Tensor &x) { return adaptive_avg_pool2d(x, 1); });
  same(image, [&](const Tensor &x) { return unfold(x, {2, 3}, {.padding = 1}); });
  same(range({12, 16}), [&](const Tensor &x) { return fold(x, 5, 2); });
  same(signal, [&](const Tensor &x) { return conv1d(x, row); });
  same(signal, [&](const Tensor &x) { return conv_transpose1d(x, range({3, 2, 3})); });
  same(signal, [&](const Tensor &x) { return max_pool1d(x, 2); });
  same(signal, [&](const Tensor &x) { return avg_pool1d(x, 2); });
  same(signal, [&](const Tensor &x) { return adaptive_avg_pool1d(x, 2); });
}

// Numbers at the ends of int64 are as good as any that lie beyond the tensor.
// One pixel that is NaN spoils the windows that it lies in, and no others.
TEST(Images, WindowsOfAdaptivePooling) {
  Tensor x = ones({1, 2, 7, 5});
  x.slice(2, 6, 7).slice(3, 4, 5).fill_(kNan);
  for (const Tensor &y : {adaptive_avg_pool2d(x, 3), adaptive_avg_pool2d(x, {3, 5})}) {
    Tensor spoilt = is_nan(y);
    EXPECT_EQ(sum(spoilt).item<int64_t>(), 2) << y;
    EXPECT_TRUE(all(spoilt.select(2, 2).select(2, -1)).item<bool>()) << y;
    EXPECT_TRUE(all(spoilt | (y == 1)).item<bool>()) << y;
  }
  EXPECT_EQ(sum(is_nan(adaptive_avg_pool1d(x[0][0], 3))).item<int64_t>(), 1);
  // The means of windows of several sizes: 0 to 2, 1 to 3 and 3 to 4, and 0 to 1, 1 to 3, 3 to 4.
  Tensor z = range({1, 1, 5, 1}).requires_grad_(), mean = adaptive_avg_pool2d(z, {3, 1});
  EXPECT_EQ(mean.to_vector<float>(), (Floats{0.5, 2, 3.5}));
  EXPECT_EQ(grad({sum(mean * tensor({6.f, 60.f, 600.f}).reshape({1, 1, 3, 1}))}, {z})[0]
                .to_vector<float>(),
            (Floats{3, 23, 20, 320, 300}));
  // Windows that tile the image, of few and of many elements.
  Tensor tiles = range({1, 2, 12, 16});
  for (Pair size : {Pair(6, 8), Pair(3, 4), Pair(2, 2), Pair(1, 2)}) {
    int64_t rows = 12 / size.height, columns = 16 / size.width;
    Tensor apart = tiles.reshape({1, 2, size.height, rows, size.width, columns});
    EXPECT_TRUE(all_close(adaptive_avg_pool2d(tiles, size), apart.mean({3, 5})));
  }
}

// A place outside the image reads zeros, whatever the pixels are.
TEST(Images, PlacesOutsideReadNoPixel) {
  Tensor pixels = full({1, 1, 2, 2}, kNan), grid = full({1, 1, 2, 2}, -3.f).requires_grad_();
  for (Resize mode : {Resize::kBilinear, Resize::kNearest}) {
    Tensor read = grid_sample(pixels, grid, {.mode = mode});
    EXPECT_EQ(read.to_vector<float>(), (Floats{0, 0}));
    EXPECT_EQ(grad({sum(read)}, {grid})[0].to_vector<float>(), (Floats{0, 0, 0, 0}));
  }
  grid = zeros({1, 1, 1, 2}).requires_grad_();
  EXPECT_EQ(grad({sum(grid_sample(pixels, grid, {.mode = Resize::kNearest}))}, {grid})[0]
                .to_vector<float>(),
            (Floats{0, 0}));
  // The last pixel has no neighbour behind it.
  Tensor last = tensor({1.f, kInf}).reshape({1, 1, 1, 2}), corner = ones({1, 1, 1, 2});
  EXPECT_EQ(grid_sample(last, corner, {.padding = GridPadding::kBorder, .align_corners = true})
                .item<float>(),
            kInf);
}

// Of the positions that output_padding adds some have no element of weight, not even one times 0.
TEST(Images, TransposedConvolutionsBeyondTheLastPixel) {
  // Rows: stride 1, dilation 3, so that output_padding may be 2; columns: stride 2.
  Tensor x = range({1, 1, 2, 2}) + 1, weight = tensor({1.f, 10.f}).reshape({1, 1, 2, 1});
  ConvTranspose2dOptions options{.stride = {1, 2}, .output_padding = {2, 1}, .dilation = {3, 1}};
  EXPECT_EQ(conv_transpose2d(x, weight, {}, options).to_vector<float>(),
            (Floats{1, 0, 2, 0, 3, 0, 4, 0, 0, 0, 0, 0, 10, 0, 20, 0, 30, 0, 40, 0, //
                    0, 0, 0, 0, 0, 0, 0, 0}));
  // With padding the result begins later, and as much of what output_padding adds is reached.
  options.padding = {1, 0};
  EXPECT_EQ(conv_transpose2d(x, weight, tensor({0.5f}), options).to_vector<float>(),
            (Floats{3.5, .5, 4.5, .5, .5, .5, .5, .5, 10.5, .5, 20.5, .5, 30.5, .5, 40.5, .5, //
                    .5,  .5, .5,  .5}));
  weight = tensor({1.f, kNan}).reshape({1, 1, 2, 1});
  options.padding = 0;
  EXPECT_EQ(sum(is_nan(conv_transpose2d(x, weight, {}, options))).item<int64_t>(), 4);
}

TEST(Movement, NumbersFarBeyondTheTensor) {
  Tensor x = range({2, 3});
  for (int64_t far : {INT64_MAX, INT64_MIN}) {
    bool above = far > 0;
    EXPECT_TRUE(equal(tril(x, far), above ? x : zeros({2, 3})));
    EXPECT_TRUE(equal(triu(x, far), above ? zeros({2, 3}) : x));
    EXPECT_EQ(diagonal(x, far).size(), 0);
    EXPECT_EQ(roll(x, far, 1).shape(), x.shape());
  }
  EXPECT_EQ(chunk(x, INT64_MAX, 1).size(), 3u);
}

// A position without dims takes its dim away before the others' dims are looked at: PyTorch's
// shapes and numbers.
// What programs for PyTorch lean on.
TEST(Movement, EmptyPartsAndNumbers) {
  EXPECT_EQ(chunk(zeros({0, 3}), 3).size(), 3u);
  EXPECT_EQ(chunk(zeros({2, 0}), 2, 1)[1].shape(), (Shape{2, 0}));
  EXPECT_EQ(chunk(zeros({5}), 3).size(), 3u);
  Tensor x = ones({2, 3}), none = zeros({0}, float64);
  EXPECT_EQ(cat({none, x, none, x}).shape(), (Shape{4, 3}));
  EXPECT_EQ(cat({x, none}, -1).dtype(), float64);
  EXPECT_EQ(cat({none, none}).shape(), (Shape{0}));
  EXPECT_NE(message_of([&] {
              cat({none, x, ones({3, 2})});
            }).find("cat: tensor 1 has shape [2, 3]"),
            std::string::npos);
  EXPECT_EQ(meshgrid({scalar(2.f), tensor({1.f, 3.f})})[0].to_vector<float>(), (Floats{2, 2}));
  EXPECT_EQ(index_fill(range({2, 2}), 0, scalar(1), 7).to_vector<float>(), (Floats{0, 1, 7, 7}));
  EXPECT_EQ(range({3}).clamp(tensor({1.f, 1.f, 0.f}), scalar(1.5f)).to_vector<float>(),
            (Floats{1, 1, 1.5}));
  Tensor written = range({3});
  written.clamp_(tensor({1.f, 1.f, 0.f}), Tensor());
  EXPECT_EQ(written.to_vector<float>(), (Floats{1, 1, 2}));
}

// One feature, or one number for all of them.
TEST(Products, LinearOfAVector) {
  Tensor x = range({2, 3}), weight = tensor({1.f, 2.f, 3.f});
  EXPECT_EQ(linear(x, weight).to_vector<float>(), (Floats{8, 26}));
  EXPECT_EQ(linear(x[0], weight, scalar(1.f)).shape(), Shape{});
  EXPECT_EQ(linear(x, stack({weight, -weight}), tensor({1.f})).to_vector<float>(),
            (Floats{9, -7, 27, -25}));
}

TEST(TensorIndexing, APositionWithoutDimsIsANumber) {
  Tensor one = scalar(int64_t{1}), last = tensor<int64_t>({3, 0}), flips = tensor<int64_t>({1, 0});
  Tensor x = range({2, 3, 4});
  EXPECT_TRUE(all_close(x.index({one, Slice(), last}), x.index({1, Slice(), last})));
  EXPECT_EQ(x.index({one, Slice(), last}).shape(), (Shape{3, 2}));
  EXPECT_EQ(x.index({one, Slice(), one}).to_vector<float>(), (Floats{13, 17, 21}));
  Tensor y = range({2, 3, 4, 5});
  EXPECT_TRUE(all_close(y.index({Slice(), one, flips, one}), y.index({Slice(), 1, flips, 1})));
  EXPECT_EQ(y.index({Slice(), one, Slice(), last}).shape(), (Shape{2, 4, 2}));
  EXPECT_EQ(y.index({flips, one, last}).shape(), (Shape{2, 5}));
  EXPECT_EQ(y.index({one, flips, Slice(), last}).shape(), (Shape{2, 4}));
  EXPECT_EQ(y.index({scalar(true), one, Slice(), last}).shape(), (Shape{2, 3, 5}));
  Tensor written = zeros({2, 3, 4}), same = zeros({2, 3, 4});
  written.index_put_({one, Slice(), last}, range({3, 2}));
  same.index_put_({1, Slice(), last}, range({3, 2}));
  EXPECT_TRUE(all_close(written, same));
  written.index_put_({one, Slice(), last}, range({3, 2}), /*accumulate=*/true);
  EXPECT_TRUE(all_close(written, 2 * same));
}

// Flips of what several positions of the flipped dims share: each in one program, and op by op.
TEST(Movements, FlipsOfRepeatedElements) {
  Tensor x = range({2, 3}).eval();
  auto check = [](const char *what, const std::vector<std::function<Tensor(const Tensor &)>> &ops,
                  const Tensor &x) {
    Tensor whole = x, stepwise = x;
    for (const auto &op : ops) {
      whole = op(whole);
      stepwise = op(stepwise).clone().eval();
    }
    EXPECT_EQ(whole.to_vector<float>(), stepwise.to_vector<float>()) << what;
  };
  auto twice = [](const Tensor &x) {
    return x * 2 + 1;
  };
  auto flat = [](const Tensor &x) {
    return x.flatten();
  };
  auto flip = [](const Tensor &x) {
    return x.flip(0);
  };
  auto back = [](const Tensor &x) {
    return x.slice(0, std::nullopt, std::nullopt, -2);
  };
  auto repeat = [](const Tensor &x) {
    return x.repeat({2, 2});
  };
  auto expand = [](const Tensor &x) {
    return x.unsqueeze(0).expand({2, 2, 3});
  };
  auto outer = [](const Tensor &x) {
    return x.unsqueeze(2) + x.unsqueeze(1);
  };
  auto both = [](const Tensor &x) {
    return x.flip({0, 1});
  };
  auto stacked = [](const Tensor &x) {
    return stack({x, -x}, 1);
  };
  auto split = [](const Tensor &x) {
    return x.reshape({2, 2, 2, 3}).permute({3, 1, 0, 2});
  };
  for (const auto &turn : {std::function<Tensor(const Tensor &)>(flip), {back}}) {
    check("expand", {expand, twice, flat, turn}, x);
    check("expand, later", {expand, flat, turn, twice}, x);
    check("outer", {outer, flat, turn}, x);
    check("repeat", {repeat, twice, flat, turn}, x);
    check("stack", {stacked, flat, turn}, x);
    check("split", {repeat, twice, split, turn, flat, turn}, x);
  }
  check("both", {repeat, twice, both}, x);
  check("both twice", {repeat, both, twice, both}, x);
}

// Functions that give new tensors do so where there is nothing to do, too.
TEST(Movements, ResultsAreOfTheirOwn) {
  using Function = std::function<Tensor(const Tensor &)>;
  auto check = [](const char *name, const Tensor &from, const Function &function) {
    Tensor x = from.clone().eval();
    std::vector<double> before = x.to_vector<double>();
    Tensor y = function(x);
    y.fill_(1);
    EXPECT_EQ(x.to_vector<double>(), before) << name;
    EXPECT_EQ(y.sum().item<double>(), static_cast<double>(y.size())) << name;
  };
  Tensor column = range({6, 1}) + 2, matrix = range({2, 3}) + 2, integers = matrix.to(int64),
         image = range({1, 1, 4, 4}) + 2;
  check("cumprod", column, [](const Tensor &x) { return x.cumprod(1); });
  check("cumprod of integers", column.to(int64), [](const Tensor &x) { return x.cumprod(1); });
  check("cumsum", column, [](const Tensor &x) { return x.cumsum(1); });
  check("rot90", matrix, [](const Tensor &x) { return x.rot90(4); });
  check("diff", matrix, [](const Tensor &x) { return x.diff(0); });
  check("sort", scalar(5.0), [](const Tensor &x) { return x.sort(0).first; });
  check("trunc", integers, [](const Tensor &x) { return x.trunc(); });
  check("nan_to_num", integers, [](const Tensor &x) { return x.nan_to_num(); });
  check("nearest", image, [](const Tensor &x) { return resize(x, {4, 4}); });
  check("bilinear", image,
        [](const Tensor &x) { return resize(x, {4, 4}, {.mode = Resize::kBilinear}); });
  check("pixel_shuffle", image, [](const Tensor &x) { return pixel_shuffle(x, 1); });
  check("pixel_unshuffle", image, [](const Tensor &x) { return pixel_unshuffle(x, 1); });
}

// A map of labels stays one; numbers between two labels are none.
TEST(Movements, LabelsAreResizedByTheNearest) {
  Tensor labels = tensor({{1.f, 2.f}, {3.f, 255.f}}).to(uint8).reshape({1, 1, 2, 2});
  Tensor large = resize(labels, {4, 3});
  EXPECT_EQ(large.dtype(), uint8);
  EXPECT_EQ(large.to_vector<uint8_t>(),
            (std::vector<uint8_t>{1, 1, 2, 1, 1, 2, 3, 3, 255, 3, 3, 255}));
  EXPECT_NE(message_of([&] { resize(labels, {4, 3}, {.mode = Resize::kBilinear}); },
                       ErrorKind::kDType),
            "");
}

// Nothing is repeated there, so that each element has one place to be written to.
TEST(Movements, ExpandedByDimsOfSizeOneIsWritten) {
  Tensor x = range({2, 3, 1});
  x.expand({1, 2, 3, 1}).add_(1);
  EXPECT_EQ(x.to_vector<float>(), (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_NE(message_of([&] { x.expand({2, 2, 3, 1}).add_(1); }, ErrorKind::kState), "");
}

// One element of a slice with a step, read backwards, and its derivative.
TEST(Movements, FlipsOfOneElementOfAStep) {
  for (int64_t n : {4, 5, 6})
    for (int64_t step = 2; step < n; ++step)
      for (int64_t at = 0; at < n; ++at) {
        Floats expected(static_cast<size_t>(n), 0);
        expected[static_cast<size_t>(n - 1 - at)] = 1;
        Tensor z = zeros({n}), y = ones({n}).set_requires_grad();
        z.slice(0, at, at + 1, step).fill_(1);
        y.flip(0).slice(0, at, at + 1, step).sum().backward();
        EXPECT_EQ(z.flip(0).to_vector<float>(), expected);
        EXPECT_EQ(y.grad().to_vector<float>(), expected);
      }
}

// What is left is empty, and would begin behind the end.
TEST(Movements, EmptySlicesOfDiagonals) {
  Tensor x = range({4, 5});
  EXPECT_EQ(x.diagonal(-2).narrow(0, 2, 0).to_vector<float>(), Floats());
  EXPECT_EQ(x.diagonal(-3).slice(0, 1).sum().item<float>(), 0);
  EXPECT_EQ(x.slice(0, 1, 4, 2).slice(0, 2).shape(), (Shape{0, 5}));
  EXPECT_EQ((x.slice(0, 1, 4, 3).slice(0, 1) * 2).to_vector<float>(), Floats());
}

TEST(TensorIndexing, MasksCutWithTheirReason) {
  Tensor x = range({3, 4});
  uint64_t before = cuts(CutReason::kMask);
  EXPECT_EQ(x.index({x > 8.5}).to_vector<float>(), (Floats{9, 10, 11}));
  EXPECT_EQ(cuts(CutReason::kMask), before + 1);
  EXPECT_EQ(x.index({tensor({true, false, true}), 1}).to_vector<float>(), (Floats{1, 9}));
  EXPECT_EQ(x.index({x < 0}).shape(), (Shape{0}));
  // A mask without dims makes a new one, of size 1 or 0.
  Tensor number = scalar(3);
  EXPECT_EQ(number.index({number > 2}).to_vector<float>(), (Floats{3}));
  EXPECT_EQ(number.index({number > 3}).shape(), (Shape{0}));
  EXPECT_EQ(x.index({number > 2}).shape(), (Shape{1, 3, 4}));
  EXPECT_EQ(x.index({1, number > 3}).shape(), (Shape{0, 4}));
  number.index_put_({number > 2}, 5);
  EXPECT_EQ(number.item<float>(), 5);
  EXPECT_EQ(nonzero(tensor({{0.f, 2.f}, {3.f, 0.f}})).to_vector<int64_t>(), (Ints{0, 1, 1, 0}));
  EXPECT_EQ(std::string(name(CutReason::kMask)), "mask");
  before = cuts(CutReason::kMask);
  EXPECT_EQ(bincount(tensor<int64_t>({2, 0, 2})).shape(), (Shape{3}));
  EXPECT_EQ(cuts(CutReason::kMask), before + 1);
  // One value through a mask needs no positions.
  before = cuts(CutReason::kMask);
  x.index_put_({x > 8.5}, 0);
  EXPECT_EQ(sum(x).item<float>(), 36);
  x.index_put_({tensor({true, false, false})}, -1);
  EXPECT_EQ(x.index({0}).to_vector<float>(), (Floats{-1, -1, -1, -1}));
  EXPECT_EQ(cuts(CutReason::kMask), before);
  x.index_put_({x < 0}, tensor({1.f, 2.f, 3.f, 4.f}));
  EXPECT_EQ(x.index({0}).to_vector<float>(), (Floats{1, 2, 3, 4}));
}

TEST(TensorIndexing, WritesGoThroughViews) {
  Tensor x = zeros({4, 3});
  x.index_put_({tensor<int64_t>({1, 3})}, tensor({1.f, 2.f, 3.f}));
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 0, 0, 1, 2, 3, 0, 0, 0, 1, 2, 3}));
  Tensor column = x.index({Slice(), 2});
  column.index_put_({tensor<int64_t>({0, 0, 2})}, tensor({7.f, 8.f, 9.f}));
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 0, 8, 1, 2, 3, 0, 0, 9, 1, 2, 3}))
      << "of two values the last one stays";
  x.index_put_({tensor<int64_t>({0, 0}), tensor<int64_t>({0, 0})}, 5, true);
  EXPECT_EQ(x[0].to_vector<float>(), (Floats{10, 0, 8}));
  x.index({Slice(1), Slice(0, 2)}) = 0;
  EXPECT_EQ(x.to_vector<float>(), (Floats{10, 0, 8, 0, 0, 3, 0, 0, 9, 0, 0, 3}));
  Tensor y = index_put(x, {tensor<int64_t>({0})}, -1);
  EXPECT_EQ(y[0].to_vector<float>(), (Floats{-1, -1, -1}));
  EXPECT_EQ(x[0].to_vector<float>(), (Floats{10, 0, 8}));
}

TEST(TensorIndexing, Errors) {
  Tensor x = range({3, 4}), rows = tensor<int64_t>({0, 1});
  EXPECT_NE(message_of([&] { x.index({rows}) = 0; }, ErrorKind::kState).find("index_put_"),
            std::string::npos);
  EXPECT_NE(message_of([&] { x.index({zeros({2})}); }, ErrorKind::kDType).find("int64 or bool"),
            std::string::npos);
  EXPECT_NE(message_of([&] { x.index({zeros({2}, boolean)}); }, ErrorKind::kIndex).find("mask"),
            std::string::npos);
  EXPECT_NE(message_of([&] { x.index({rows, rows, rows}); }, ErrorKind::kIndex), "");
  EXPECT_NE(message_of([&] { x.index({rows, tensor<int64_t>({0, 1, 2})}); }, ErrorKind::kShape),
            "");
  EXPECT_NE(message_of([&] { x.index_put_({rows}, zeros({3})); }, ErrorKind::kShape), "");
  // Out of range in its own dim, though not in the whole.
  EXPECT_THROW((void)x.index({tensor<int64_t>({0}), tensor<int64_t>({4})}).item<float>(), Error);
  EXPECT_THROW((void)x.index({tensor<int64_t>({-4})}).to_vector<float>(), Error);
}

TEST(Losses, NothingComesOfAnImprobableClass) {
  Tensor target = tensor({0.f, 1.f}).requires_grad_();
  EXPECT_EQ(kl_div(tensor({-5.f, 0.f}), target, Reduction::kNone).to_vector<float>(),
            (Floats{0, 0}));
  for (float value :
       grad({kl_div(tensor({-5.f, 0.f}), target, Reduction::kSum)}, {target})[0].to_vector<float>())
    EXPECT_TRUE(std::isfinite(value));
}

// PyTorch's: (x - target) / max(x (1 - x), 1e-12), and the derivative of that.
TEST(Losses, ProbabilitiesOfZeroAndOneHaveGradients) {
  Tensor target = tensor({0.f, 1.f, 1.f, 0.f, 1.f});
  Tensor x = tensor({0.f, 1.f, 0.f, 1.f, 0.25f}).set_requires_grad();
  Tensor loss = binary_cross_entropy(x, target, Reduction::kNone);
  EXPECT_EQ(loss.detach().slice(0, 0, 4).to_vector<float>(), (std::vector<float>{0, 0, 100, 100}));
  Tensor first = grad({loss.sum()}, {x}, {.create_graph = true})[0];
  std::vector<float> values = first.detach().to_vector<float>();
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[1], 0);
  EXPECT_FLOAT_EQ(values[2], -1e12f);
  EXPECT_FLOAT_EQ(values[3], 1e12f);
  EXPECT_FLOAT_EQ(values[4], -4);
  EXPECT_FLOAT_EQ(grad({first.sum()}, {x})[0].to_vector<float>()[4], 16);

  // Of a sigmoid that is 0 or 1 in float32.
  Tensor z = tensor({-200.f, 200.f}).set_requires_grad();
  binary_cross_entropy(sigmoid(z), tensor({0.f, 1.f})).backward();
  EXPECT_EQ(z.grad().to_vector<float>(), (std::vector<float>{0, 0}));
}

TEST(Losses, ProbabilitiesBeyondZeroAndOne) {
  Tensor half = full({3}, 0.5);
  auto expect_refused = [](const Tensor &x, const Tensor &target, auto what) {
    int line = __LINE__ + 1;
    Tensor loss = binary_cross_entropy(x, target);
    std::string message =
        message_of([&] { (void)what(loss).template to_vector<float>(); }, ErrorKind::kRun, line);
    EXPECT_NE(message.find("binary_cross_entropy: an element of x or target is not in [0, 1]"),
              std::string::npos)
        << message << x << target;
  };
  auto itself = [](const Tensor &loss) {
    return loss;
  };
  for (float beyond : {1.5f, -0.5f, kNan, kInf}) {
    expect_refused(tensor({0.f, beyond, 1.f}), half, itself);
    expect_refused(half, tensor({0.f, beyond, 1.f}), itself);
  }
  Tensor w = tensor({2.f, 0.5f, 0.25f}).set_requires_grad();
  expect_refused(w, half, [&](const Tensor &loss) { return grad({loss}, {w})[0]; });
}

// Beyond what the dtype of the targets holds it is none of them; beyond 2^53 it has all its digits.
TEST(Losses, AnyIgnoreIndex) {
  const int64_t large = (int64_t(1) << 60) + 1;
  Tensor logits = tensor({{1.f, 2.f, 3.f}, {4.f, 1.f, 0.f}, {0.f, 0.f, 1.f}});
  auto both = [&](const Tensor &targets, int64_t ignored) {
    Tensor x = logits.clone().requires_grad_();
    Tensor loss = cross_entropy(x, targets, Reduction::kMean, ignored),
           nll = nll_loss(log_softmax(x, -1), targets, Reduction::kMean, ignored);
    EXPECT_NEAR(loss.item<float>(), nll.item<float>(), 1e-6);
    Floats gradient = grad({loss}, {x})[0].to_vector<float>(),
           expected = grad({nll}, {x})[0].to_vector<float>();
    for (size_t i = 0; i < gradient.size(); ++i)
      EXPECT_NEAR(gradient[i], expected[i], 1e-6) << i;
    return loss.item<float>();
  };
  float first = cross_entropy(logits.narrow(0, 0, 1), tensor<int64_t>({2})).item<float>(),
        all = cross_entropy(logits, tensor<int64_t>({2, 1, 0})).item<float>();
  EXPECT_NEAR(both(tensor<int64_t>({2, large, large}), large), first, 1e-6);
  EXPECT_NEAR(both(tensor<int64_t>({2, -large, -large}), -large), first, 1e-6);
  EXPECT_NEAR(both(tensor<int32_t>({2, -100, -100}), -100), first, 1e-6);
  // As int32 these would be 1 and 0.
  EXPECT_NEAR(both(tensor<int32_t>({2, 1, 0}), (int64_t(1) << 32) + 1), all, 1e-6);
  EXPECT_NEAR(both(tensor<int32_t>({2, 1, 0}), int64_t(1) << 40), all, 1e-6);
  // One more is a number of its own, and no class.
  for (int64_t near : {large - 1, large + 1})
    EXPECT_NE(message_of(
                  [&] {
                    cross_entropy(logits, tensor<int64_t>({2, near, 0}), Reduction::kMean, large)
                        .item<float>();
                  },
                  ErrorKind::kRun)
                  .find(std::to_string(near) + " at position 1"),
              std::string::npos);
}

// Where they are linear, the square that is not taken has no say in the derivative.
TEST(Losses, DerivativesFarFromTheTarget) {
  for (auto loss : {huber_loss, smooth_l1_loss}) {
    Tensor x = tensor({kInf, -kInf, 3.f, 0.5f, kNan}).requires_grad_();
    Tensor y = loss(x, zeros({5}), 1, Reduction::kSum, Location::current());
    Floats slopes = grad({y}, {x})[0].to_vector<float>();
    EXPECT_TRUE(std::isnan(slopes.back()));
    slopes.pop_back();
    EXPECT_EQ(slopes, (Floats{1, -1, 1, 0.5}));
  }
}

TEST(Losses, Errors) {
  EXPECT_NE(
      message_of([] { huber_loss(zeros({2}), zeros({2}), 0); }, ErrorKind::kValue).find("delta"),
      std::string::npos);
  EXPECT_NE(message_of([] { l1_loss(zeros({2}), zeros({3})); }, ErrorKind::kShape).find("[3]"),
            std::string::npos);
  EXPECT_NE(
      message_of([] { nll_loss(zeros({2, 3}), zeros({2})); }, ErrorKind::kDType).find("int64"),
      std::string::npos);
  EXPECT_NE(message_of([] { nll_loss(zeros({1, 3}), tensor<int64_t>({3})).item<float>(); },
                       ErrorKind::kRun)
                .find("index 3 at position 0"),
            std::string::npos);
}

// A sum beside a result without elements is no sum of nothing.
TEST(Reductions, StandBesideEmptyResults) {
  Tensor x = Tensor::from(Floats{-1.5f, 2.f}) - 0.5;
  Tensor total = sum(x * x, {}, true), nothing = x.slice(0, 1, 1);
  eval({nothing, total});
  EXPECT_EQ(total.to_vector<float>(), (Floats{6.25f}));
  EXPECT_EQ(nothing.to_vector<float>(), (Floats{}));
}

TEST(IndexPut, AddsWithoutTensorsAndToBools) {
  Tensor x = range({5}), y = zeros({4}, int64), flags = zeros({3}, boolean);
  x.index_put_({Ellipsis}, ones({1, 5}), /*accumulate=*/true);
  EXPECT_EQ(x.to_vector<float>(), (range({5}) + 1).to_vector<float>());
  y.index_put_({Slice(1, 3)}, 1.5, /*accumulate=*/true);
  EXPECT_EQ(y.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 1, 0}));
  EXPECT_THROW(y.index_put_({Slice()}, full({4}, 1.7f), /*accumulate=*/true), Error);
  flags.index_put_({tensor<int64_t>({2, 0, 2})}, tensor({true, false, true}).to(boolean),
                   /*accumulate=*/true);
  EXPECT_EQ(flags.to_vector<bool>(), (std::vector<bool>{false, false, true}));
}

// The last window reaches over the end of an image that is smaller than it.
TEST(Pools, LargerThanTheImage) {
  Tensor x = tensor({1.f, 3.f}).reshape({1, 1, 1, 2});
  EXPECT_EQ(max_pool2d(x, 2, {.stride = {}, .ceil_mode = true}).to_vector<float>(), (std::vector<float>{3}));
  EXPECT_EQ(avg_pool2d(x, 2, {.stride = {}, .ceil_mode = true}).to_vector<float>(), (std::vector<float>{2}));
  Tensor row = x.reshape({1, 1, 2});
  EXPECT_EQ(max_pool1d(row, 3, {.stride = 2, .ceil_mode = true}).to_vector<float>(),
            (std::vector<float>{3}));
  EXPECT_EQ(avg_pool1d(row, 3, {.stride = 2, .ceil_mode = true}).to_vector<float>(),
            (std::vector<float>{2}));
  EXPECT_THROW(max_pool1d(row, 4, {.stride = 2, .ceil_mode = true}), Error);
  EXPECT_THROW(max_pool2d(x, Pair(4, 2), {.stride = 2, .ceil_mode = true}), Error);
}

} // namespace
} // namespace weft
