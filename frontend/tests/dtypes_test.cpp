// Every function in every dtype: it either gives the same on the cpu as by reference evaluation, or
// is refused with an error that names the dtype, at the caller's line. And training in 16-bit
// floats.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace weft {
namespace {

struct Function {
  const char *name;
  std::function<Tensor(DType)> run;
};

// Small numbers, exact in every dtype; bools alternate.
Tensor numbers(DType dtype, const Shape &shape, int64_t least = 1) {
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  std::vector<int64_t> values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(dtype == boolean ? i % 2 : least + i * 5 % 7);
  return Tensor::from(values, shape).to(dtype);
}

std::vector<Function> functions() {
  auto x = [](DType t) {
    return numbers(t, {3, 4});
  };
  auto y = [](DType t) {
    return numbers(t, {4}, 2);
  };
  auto image = [](DType t) {
    return numbers(t, {1, 2, 4, 4});
  };
  auto rows = [] {
    return Tensor::from<int64_t>({2, 0, 2});
  };
  std::vector<Function> all;
  const Location here =
      Location::current(); // where the generated file expands the macros is no place of ours
#define WEFT_UNARY(function, record, operands, doc)                                                \
  all.push_back({#function, [=](DType t) { return function(x(t), here); }});
#define WEFT_BINARY(function, record, operands, doc)                                               \
  all.push_back({#function, [=](DType t) { return function(x(t), y(t), here); }});                 \
  all.push_back({#function " of an integer", [=](DType t) { return function(x(t), 2, here); }});   \
  all.push_back({#function " of a number", [=](DType t) { return function(x(t), 0.5, here); }});
#include "weft/ops/elementwise.inc"
#undef WEFT_UNARY
#undef WEFT_BINARY
  std::vector<Function> more = {
      {"div", [=](DType t) { return x(t) / y(t); }},
      {"remainder", [=](DType t) { return x(t) % y(t); }},
      {"square", [=](DType t) { return square(x(t)); }},
      {"gelu", [=](DType t) { return gelu(x(t)); }},
      {"is_nan", [=](DType t) { return is_nan(x(t)); }},
      {"is_finite", [=](DType t) { return is_finite(x(t)); }},
      {"logical_not", [=](DType t) { return logical_not(x(t)); }},
      {"logical_xor", [=](DType t) { return logical_xor(x(t), y(t)); }},
      {"bitwise_not", [=](DType t) { return bitwise_not(x(t)); }},
      {"bitwise_and", [=](DType t) { return bitwise_and(x(t), y(t)); }},
      {"bitwise_xor", [=](DType t) { return bitwise_xor(x(t), y(t)); }},
      {"bitwise_left_shift", [=](DType t) { return bitwise_left_shift(x(t), y(t)); }},
      {"bitwise_right_shift", [=](DType t) { return x(t) >> y(t); }},
      {"lt", [=](DType t) { return x(t) < y(t); }},
      {"eq of a number", [=](DType t) { return x(t) == 3.0; }},
      {"where", [=](DType t) { return where(x(t) > y(t), x(t), y(t)); }},
      {"masked_fill", [=](DType t) { return masked_fill(x(t), x(t) > y(t), 1); }},
      {"clamp", [=](DType t) { return clamp(x(t), 2, 5); }},
      {"silu", [=](DType t) { return silu(x(t)); }},
      {"elu", [=](DType t) { return elu(x(t)); }},
      {"selu", [=](DType t) { return selu(x(t)); }},
      {"leaky_relu", [=](DType t) { return leaky_relu(x(t)); }},
      {"log_sigmoid", [=](DType t) { return log_sigmoid(x(t)); }},
      {"mish", [=](DType t) { return mish(x(t)); }},
      {"hardswish", [=](DType t) { return hardswish(x(t)); }},
      {"sum", [=](DType t) { return sum(x(t), 0); }},
      {"mean", [=](DType t) { return mean(x(t), 1); }},
      {"max", [=](DType t) { return max(x(t), 1); }},
      {"min", [=](DType t) { return min(x(t)); }},
      {"prod", [=](DType t) { return prod(x(t), 1); }},
      {"any", [=](DType t) { return any(x(t), 0); }},
      {"var", [=](DType t) { return var(x(t), 1); }},
      {"norm", [=](DType t) { return norm(x(t), 2, 1); }},
      {"argmax", [=](DType t) { return argmax(x(t), 1); }},
      {"cumsum", [=](DType t) { return cumsum(x(t), 0); }},
      {"matmul", [=](DType t) { return matmul(x(t), numbers(t, {4, 5})); }},
      {"linear", [=](DType t) { return linear(x(t), numbers(t, {5, 4}), numbers(t, {5})); }},
      {"cat", [=](DType t) { return cat({x(t), x(t)}, 1); }},
      {"flip", [=](DType t) { return flip(x(t), 1); }},
      {"pad", [=](DType t) { return pad(x(t), {1, 2}); }},
      {"tril", [=](DType t) { return tril(x(t)); }},
      {"transpose", [=](DType t) { return x(t).t().clone(); }},
      {"repeat", [=](DType t) { return repeat(x(t), {2, 1}); }},
      {"index_select", [=](DType t) { return index_select(x(t), 0, rows()); }},
      {"gather",
       [=](DType t) { return gather(x(t), 0, Tensor::from<int64_t>({2, 1, 0, 0}, {1, 4})); }},
      {"scatter_add",
       [=](DType t) {
         return scatter_add(x(t), 0, Tensor::from<int64_t>({2, 2, 0, 0}, {1, 4}),
                            numbers(t, {1, 4}));
       }},
      {"scatter_reduce",
       [=](DType t) {
         return scatter_reduce(x(t), 0, Tensor::from<int64_t>({2, 2, 0, 0}, {1, 4}),
                               numbers(t, {1, 4}), "amax");
       }},
      {"scatter_reduce of means",
       [=](DType t) {
         return scatter_reduce(x(t), 0, Tensor::from<int64_t>({2, 2, 0, 0}, {1, 4}),
                               numbers(t, {1, 4}), "mean", false);
       }},
      {"atan2", [=](DType t) { return atan2(x(t), numbers(t, {4})); }},
      {"fmod", [=](DType t) { return fmod(x(t), numbers(t, {4})); }},
      {"max_with_indices", [=](DType t) { return max_with_indices(x(t), 1).second; }},
      {"cummax", [=](DType t) { return cummax(x(t), 0).second; }},
      {"mode", [=](DType t) { return mode(x(t), 1).first; }},
      {"bucketize", [=](DType t) { return bucketize(x(t), numbers(t, {3})); }},
      {"diff", [=](DType t) { return diff(x(t)); }},
      {"index_put", [=](DType t) { return index_put(x(t), {rows()}, numbers(t, {3, 4})); }},
      {"index_put of sums",
       [=](DType t) { return index_put(x(t), {rows()}, numbers(t, {3, 4}), true); }},
      {"softmax", [=](DType t) { return softmax(x(t), 1); }},
      {"log_softmax", [=](DType t) { return log_softmax(x(t), 0); }},
      {"layer_norm", [=](DType t) { return layer_norm(x(t), {4}); }},
      {"attention", [=](DType t) { return attention(x(t), x(t), x(t)); }},
      {"cross_entropy", [=](DType t) { return cross_entropy(x(t), rows()); }},
      {"nll_loss", [=](DType t) { return nll_loss(x(t), rows()); }},
      {"mse_loss", [=](DType t) { return mse_loss(x(t), x(t) + x(t)); }},
      {"kl_div", [=](DType t) { return kl_div(x(t), x(t)); }},
      {"conv2d",
       [=](DType t) { return conv2d(image(t), numbers(t, {3, 2, 2, 2}), numbers(t, {3})); }},
      {"conv_transpose2d",
       [=](DType t) { return conv_transpose2d(image(t), numbers(t, {2, 3, 2, 2})); }},
      {"max_pool2d", [=](DType t) { return max_pool2d(image(t), 2); }},
      {"avg_pool2d", [=](DType t) { return avg_pool2d(image(t), 2); }},
      {"adaptive_avg_pool2d", [=](DType t) { return adaptive_avg_pool2d(image(t), 3); }},
      {"group_norm", [=](DType t) { return group_norm(image(t), 1, numbers(t, {2})); }},
      {"rms_norm", [=](DType t) { return rms_norm(x(t), {4}); }},
      {"resize", [=](DType t) { return resize(image(t), 7, {.mode = Resize::kBilinear}); }},
      {"arange", [=](DType t) { return arange(0, 9, 2, t); }},
      {"full", [=](DType t) { return full({2, 2}, 3, t); }},
      {"eye", [=](DType t) { return eye(3, {}, t); }},
      {"to float16", [=](DType t) { return x(t).to(float16); }},
      {"to uint8", [=](DType t) { return x(t).to(uint8); }},
  };
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// The results of all functions in the dtype, computed together; an undefined tensor for a refusal.
std::vector<Tensor> run_all(const std::vector<Function> &all, DType dtype, const char *backend) {
  Config options = config();
  options.backend = backend;
  options.cache_dir = "off";
  set_config(options);
  std::vector<Tensor> results;
  for (const Function &function : all) {
    try {
      results.push_back(function.run(dtype));
    } catch (const Error &error) {
      results.emplace_back();
      std::string what = std::string(function.name) + " of " + name(dtype) + ": " + error.what();
      EXPECT_EQ(error.kind(), ErrorKind::kDType) << what;
      EXPECT_NE(error.message().find(name(dtype)), std::string::npos) << what;
      EXPECT_NE(error.file().find("dtypes_test.cpp"), std::string::npos) << what;
    }
  }
  eval(results);
  return results;
}

// Of a result of size 1: a few roundings of float32, and one of the result.
double step_of(DType dtype) {
  return dtype == bfloat16 ? 0x1p-7 : dtype == float16 ? 0x1p-10 : dtype == float64 ? 1e-13 : 1e-5;
}

TEST(DTypes, EveryFunctionWorksAlikeOrRefuses) {
  std::vector<Function> all = functions();
  for (const DTypeInfo &info : kDTypes) {
    std::vector<Tensor> cpu = run_all(all, info.dtype, "cpu"),
                        reference = run_all(all, info.dtype, "reference");
    size_t refused = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      std::string what = std::string(all[i].name) + " of " + info.name;
      ASSERT_EQ(cpu[i].defined(), reference[i].defined()) << what;
      if (!cpu[i].defined()) {
        ++refused;
        continue;
      }
      ASSERT_STREQ(name(cpu[i].dtype()), name(reference[i].dtype())) << what;
      std::vector<double> a = cpu[i].to_vector<double>(), e = reference[i].to_vector<double>();
      ASSERT_EQ(a.size(), e.size()) << what;
      double largest = 1;
      for (double value : e)
        if (std::isfinite(value))
          largest = std::max(largest, std::fabs(value));
      double allowed = is_floating(cpu[i].dtype()) ? step_of(cpu[i].dtype()) * largest : 0;
      for (size_t k = 0; k < a.size(); ++k) {
        bool same = a[k] == e[k] || (std::isnan(a[k]) && std::isnan(e[k])) ||
                    std::fabs(a[k] - e[k]) <= allowed;
        EXPECT_TRUE(same) << what << ", element " << k << ": " << a[k] << ", not " << e[k];
      }
    }
    // Floating-point functions take integers, so that few refuse a number: those of bits.
    if (is_floating(info.dtype))
      EXPECT_LE(refused, 5u) << info.name;
  }
}

// Parameters, gradients and moments of the dtype; the loss falls.
template <typename Optimizer> void train(DType dtype, const char *optimizer_name, double lr) {
  manual_seed(1);
  Tensor w = (randn({4, 3}) * 0.5).to(dtype).eval(), x = randn({16, 4}, dtype).eval(),
         target = matmul(x, ones({4, 3}, dtype)).eval();
  w.set_requires_grad();
  Optimizer optimizer({w}, {.lr = lr});
  float first = 0, last = 0;
  for (int i = 0; i < 20; ++i) {
    Tensor loss = mse_loss(matmul(x, w), target);
    EXPECT_EQ(loss.dtype(), dtype);
    optimizer.zero_grad();
    loss.backward();
    EXPECT_EQ(w.grad().dtype(), dtype) << optimizer_name;
    optimizer.step();
    last = loss.template item<float>();
    if (i == 0)
      first = last;
  }
  EXPECT_EQ(w.dtype(), dtype);
  EXPECT_LT(last, 0.7f * first) << optimizer_name << " in " << name(dtype);
}

TEST(DTypes, OptimizersTrainSixteenBitParameters) {
  for (DType dtype : {bfloat16, float16}) {
    train<optim::SGD>(dtype, "SGD", 0.1);
    train<optim::Adam>(dtype, "Adam", 0.1);
    train<optim::AdamW>(dtype, "AdamW", 0.1);
    train<optim::NAdam>(dtype, "NAdam", 0.1);
    train<optim::RAdam>(dtype, "RAdam", 0.1);
    train<optim::RMSprop>(dtype, "RMSprop", 0.05);
    train<optim::Adagrad>(dtype, "Adagrad", 0.2);
    train<optim::Lion>(dtype, "Lion", 0.05);
  }
}

// What PyTorch refuses, too; an exponent of a tensor is checked by nobody.
TEST(DTypes, NegativePowersOfIntegers) {
  Tensor x = Tensor::from<int32_t>({2, 1, -1, -1, 0});
  EXPECT_EQ(pow(x, Tensor::from<int32_t>({-1, -1, -3, -2, -1})).to_vector<int32_t>(),
            (std::vector<int32_t>{0, 1, -1, 1, 0}));
  EXPECT_EQ(pow(Tensor::from<uint8_t>({3, 7, 255}), 5).to_vector<uint8_t>(),
            (std::vector<uint8_t>{243, 167, 255}));
  try {
    pow(x, -1);
    ADD_FAILURE();
  } catch (const Error &error) {
    EXPECT_NE(error.message().find("to(float32)"), std::string::npos) << error.what();
  }
}

TEST(DTypes, PrintAndItem) {
  EXPECT_EQ(Tensor::from<BFloat16>(std::vector<BFloat16>{1.5f, -2.f}).to_string(),
            "[ 1.5000, -2.0000]");
  EXPECT_EQ(full({}, 0.1, float16).item<float>(), 0.0999755859375f);
  EXPECT_EQ(static_cast<float>(full({}, 0.1).item<BFloat16>()), 0.10009765625f);
  EXPECT_EQ(Tensor::from<Float16>(std::vector<Float16>{1.f}).data<Float16>()[0].bits, 0x3c00);
}

// Scalars that fit are cut off; others are refused (errors_test).
TEST(DTypes, IntegersFromScalars) {
  EXPECT_EQ(full({}, -2.9, int32).item<int32_t>(), -2);
  EXPECT_EQ(full({}, 255.9, uint8).item<uint8_t>(), 255);
}

// The count of a mean is no number of the tensor's dtype: 65536 is an infinity in float16, 257 is
// 256 in bfloat16.
TEST(DTypes, GradientsOfMeans) {
  auto gradient = [](int64_t n, DType dtype) {
    Tensor x = ones({n}, dtype).set_requires_grad();
    Tensor y = (x * 256).mean();
    y.backward();
    return x.grad().select(0, n - 1).item<float>();
  };
  EXPECT_EQ(gradient(65536, float16), 0x1p-8f);
  EXPECT_EQ(gradient(1 << 20, float16), 0x1p-12f);
  EXPECT_EQ(gradient(257, bfloat16), static_cast<float>(static_cast<BFloat16>(256 / 257.f)));
}

// As many as share a largest element are no number of the tensor's dtype, either.
// A derivative of several steps in 16 bits is that of float32, rounded: rounding at each step makes
// gelu's wrong by hundreds of units where its terms cancel.
TEST(DTypes, GradientsRoundOnce) {
  std::vector<float> values, weights;
  for (int i = 0; i < 257; ++i) {
    values.push_back(static_cast<float>(i - 128) / 32);
    weights.push_back(static_cast<float>(i * 37 % 101) / 64 - 0.75f);
  }
  const std::pair<const char *, std::function<Tensor(const Tensor &)>> all[] = {
      {"gelu", [](const Tensor &x) { return gelu(x); }},
      {"gelu tanh", [](const Tensor &x) { return gelu(x, "tanh"); }},
      {"softplus", [](const Tensor &x) { return softplus(x); }},
      {"hardswish", [](const Tensor &x) { return hardswish(x); }},
      {"erf", [](const Tensor &x) { return erf(x); }},
      {"sin", [](const Tensor &x) { return sin(x); }},
      {"atan2", [](const Tensor &x) { return atan2(x, full_like(x, 0.5)); }}};
  for (DType dtype : {bfloat16, float16})
    for (const auto &[name, function] : all) {
      auto derivative = [&, &function = function](const Tensor &x, const Tensor &weight) {
        Tensor leaf = x.detach().set_requires_grad();
        Tensor y = function(leaf);
        GradOptions options;
        options.grad_outputs = {weight.to(y.dtype())};
        return grad({y}, {leaf}, options)[0];
      };
      Tensor x = Tensor::from(values, {257}).to(dtype), weight = Tensor::from(weights, {257});
      Tensor exact = derivative(x.to(float64), weight), narrow = derivative(x, weight).to(float64);
      // Half a unit in the last place.
      double unit = dtype == bfloat16 ? 0x1p-8 : 0x1p-11;
      Tensor off = abs(narrow - exact) / (maximum(abs(exact), 0x1p-6) * unit);
      EXPECT_LT(off.max().item<double>(), 1.01) << name;
    }
}

// What derivatives read of rows (the logarithm of a sum of exponentials, means) is not rounded to
// 16 bits: of scores of 300 that would be a factor of 2.
TEST(DTypes, GradientsOfLargeScores) {
  for (DType dtype : {float16, bfloat16})
    for (float size : {1.f, 10.f, 20.f})
      for (bool biased : {false, true}) {
        // Two equal keys, so that each weighs a half.
        Tensor q = full({1, 1, 1, 8}, size).to(dtype), k = full({1, 1, 2, 8}, size).to(dtype),
               v = stack({ones({8}), full({8}, 2.f)}).reshape({1, 1, 2, 8}).to(dtype),
               mask = zeros({1, 2}, dtype);
        for (Tensor *each : {&q, &k, &v})
          each->set_requires_grad();
        mask.set_requires_grad(biased);
        attention(q, k, v, mask).backward(ones({1, 1, 1, 8}, dtype));
        EXPECT_TRUE(all_close(v.grad().to(float32), full({1, 1, 2, 8}, 0.5f), 0, 4e-3))
            << name(dtype) << " " << size << " " << v.grad();
        EXPECT_LT(abs(q.grad().to(float32)).max().item<float>(), 1e-2f * size);
        if (biased)
          EXPECT_TRUE(
              all_close(mask.grad().to(float32), Tensor::from<float>({-2, 2}, {1, 2}), 0, 1e-2))
              << name(dtype) << " " << size << " " << mask.grad();
      }
  for (DType dtype : {float16, bfloat16})
    for (float size : {20.f, 200.f}) {
      Tensor logits = Tensor::from<float>({size, size - 2, size - 8, 0}, {1, 4}).to(dtype),
             exact = logits.to(float32), targets = zeros({1}, int64);
      for (Tensor *each : {&logits, &exact}) {
        each->set_requires_grad();
        cross_entropy(*each, targets).backward();
      }
      EXPECT_TRUE(all_close(logits.grad().to(float32), exact.grad(), 4e-3, 1e-6))
          << name(dtype) << " " << size << " " << logits.grad();
      Tensor rows = (arange(32).to(float32) * 2 + 40 * size / 20).reshape({2, 16}).to(dtype),
             wide = rows.to(float32), weight = sin(arange(32).to(float32)).reshape({2, 16});
      for (Tensor *each : {&rows, &wide}) {
        each->set_requires_grad();
        (layer_norm(*each, {16}) * weight.to(each->dtype())).sum().backward();
      }
      EXPECT_TRUE(all_close(rows.grad().to(float32), wide.grad(), 1e-2, 2e-3))
          << name(dtype) << " " << size << " " << rows.grad() << " " << wide.grad();
    }
}

TEST(DTypes, GradientsOfTies) {
  for (DType dtype : {float16, bfloat16}) {
    Tensor x = zeros({70000}, dtype).set_requires_grad(),
           y = zeros({70000}, dtype).set_requires_grad();
    Tensor empty = zeros({1}, dtype), places = zeros({70000}, int64);
    (max(x) * 60000 + scatter_reduce(empty, 0, places, y, "amax", false).sum() * 60000).backward();
    for (const Tensor &leaf : {x, y})
      EXPECT_NEAR(leaf.grad().select(0, 5).item<float>(), 6. / 7, 0.005);
  }
}

// Samples of 16-bit floats stay below 1.
TEST(DTypes, Samples) {
  for (DType dtype : {bfloat16, float16}) {
    Tensor x = rand({10000}, dtype);
    EXPECT_EQ(x.dtype(), dtype);
    EXPECT_LT(max(x).item<float>(), 1.f);
    EXPECT_NEAR(x.to(float32).mean().item<float>(), 0.5f, 0.02f);
    Tensor y = normal({10000}, 3, 2, dtype).to(float32);
    EXPECT_NEAR(y.mean().item<float>(), 3.f, 0.1f);
  }
}

// The variance of what float16 holds need not be a float16: 4e6 here.
TEST(DTypes, BatchNormOfLargeHalves) {
  Tensor sign = tensor({1.f, -1.f, 1.f, -1.f, 1.f, -1.f, 1.f, -1.f}).reshape({8, 1});
  Tensor x = (sign * 2000.0 + arange(8, float32).reshape({8, 1})).to(float16);
  Tensor weight = ones({1}, float16), bias = zeros({1}, float16);
  Tensor factor = arange(8, float32).reshape({8, 1});
  auto gradients = [&](DType dtype) {
    std::vector<Tensor> by;
    for (const Tensor &each : {x, weight, bias})
      by.push_back(each.to(dtype).clone().set_requires_grad());
    Tensor y = batch_norm(by[0], {}, {}, by[1], by[2], {.training = true});
    EXPECT_EQ(y.dtype(), dtype);
    return grad({(y.to(float32) * factor).sum() * 1000.0}, by);
  };
  std::vector<Tensor> narrow = gradients(float16), wide = gradients(float32);
  for (size_t i = 0; i < narrow.size(); ++i)
    EXPECT_TRUE(all_close(narrow[i].to(float32), wide[i], 0.01, 0.01)) << narrow[i] << wide[i];
}

// Those of float64 have 53 bits, of which the upper 24 are what float32 draws.
TEST(DTypes, SamplesOfFloat64) {
  Generator wide(3), narrow(3);
  Tensor x = rand({1000}, wide, float64), y = rand({1000}, narrow).to(float64);
  EXPECT_EQ((floor(x * 0x1p24) * 0x1p-24).to_vector<double>(), y.to_vector<double>());
  EXPECT_LT(max(x).item<double>(), 1);
  Tensor lowest = (x * 0x1p53).to(int64) % 2;
  EXPECT_NEAR(lowest.to(float64).mean().item<double>(), 0.5, 0.08);
  // What is made of them, and what they take of the stream, which does not depend on the dtype.
  Tensor z = uniform({1000}, 0, 2, float64, wide), w = uniform({1000}, 0, 2, float32, narrow);
  EXPECT_TRUE(all_close(z, w.to(float64), 0, 0x1p-22));
  EXPECT_TRUE(any(z != w.to(float64)).item<bool>());
  z = randn({1000}, wide, float64), w = randn({1000}, narrow);
  EXPECT_TRUE(all_close(z, w.to(float64), 1e-3, 1e-3));
  EXPECT_TRUE(any(z != w.to(float64)).item<bool>());
  EXPECT_EQ(randint(0, 1000, {100}, wide).to_vector<int64_t>(),
            randint(0, 1000, {100}, narrow).to_vector<int64_t>());
}

} // namespace
} // namespace weft
