// Scopes of mixed precision: the dtype of each result, what gradients are, and what a jitted or
// traced function keeps of the scope it was recorded in.
#include <cmath>
#include <vector>

#include "tests/support/errors.h"
#include "weft/weft.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

std::vector<float> floats(const Tensor &x) {
  return x.to(float32).to_vector<float>();
}

// The largest difference, in units of the largest magnitude of `expected`.
double difference(const Tensor &actual, const Tensor &expected) {
  std::vector<float> a = floats(actual), b = floats(expected);
  double most = 0, scale = 1e-30;
  for (size_t i = 0; i < b.size(); ++i) {
    most = std::max(most, std::fabs(static_cast<double>(a[i]) - b[i]));
    scale = std::max(scale, std::fabs(static_cast<double>(b[i])));
  }
  return most / scale;
}

// Rounding of two factors and of the result, each half a unit of 8 bits.
constexpr double kTolerance = 0x1p-7;

TEST(Autocast, ProductsComputeInTheLowerType) {
  manual_seed(1);
  Tensor x = randn({4, 6}), w = randn({5, 6}), b = randn({5}), y = randn({6, 5});
  Tensor image = randn({2, 3, 8, 8}), kernel = randn({4, 3, 3, 3}), signal = randn({2, 3, 9}),
         taps = randn({4, 3, 3}), back = randn({3, 4, 3, 3});
  Tensor heads = randn({2, 2, 4, 8}), mask = randn({4, 4});
  auto all = [&] {
    return std::vector<Tensor>{
        matmul(x, y),
        linear(x, w, b),
        linear(x, w),
        addmm(b, x, y),
        einsum("ij,jk->ik", {x, y}),
        tensordot(x, y, 1),
        dot(b, b),
        conv2d(image, kernel),
        conv2d(image, kernel, randn({4}).detach() * 0),
        conv_transpose2d(image, back),
        conv1d(signal, taps),
        attention(heads, heads, heads),
        attention(heads, heads, heads, mask),
        scaled_dot_product_attention(heads, heads, heads),
    };
  };
  std::vector<Tensor> expected = all();
  for (DType dtype : {bfloat16, float16}) {
    Autocast scope(dtype);
    std::vector<Tensor> actual = all();
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_EQ(actual[i].dtype(), dtype) << i;
      EXPECT_LT(difference(actual[i], expected[i]), 2 * kTolerance) << i;
    }
  }
  EXPECT_EQ(matmul(x, y).dtype(), float32);
}

// What is added to a product's float32 sums keeps its digits: 1 + 2^-9 is no bfloat16.
TEST(Autocast, ABiasIsNotRounded) {
  Tensor x = full({1, 2}, 0.5), w = full({3, 2}, -1.0), b = full({3}, 1 + 0x1p-9);
  Tensor image = full({1, 2, 1, 1}, 0.5), kernel = full({3, 2, 1, 1}, -1.0);
  for (DType dtype : {bfloat16, float16}) {
    Autocast scope(dtype);
    EXPECT_EQ(floats(linear(x, w, b)), (std::vector<float>(3, 0x1p-9f)));
    EXPECT_EQ(floats(conv2d(image, kernel, b)), (std::vector<float>(3, 0x1p-9f)));
    EXPECT_EQ(linear(x, w, b).dtype(), dtype);
    EXPECT_EQ(linear(x, w, b.to(dtype)).dtype(), dtype);
  }
  EXPECT_MESSAGE(linear(x, w, b.to(bfloat16)), "bias is bfloat16 [3]; it must be float32 [3]");
}

TEST(Autocast, WhatNeedsRangeComputesInFloat32) {
  manual_seed(2);
  Tensor x = (rand({4, 6}) * 0.5 + 0.25).to(bfloat16), w = ones({6});
  Tensor targets = tensor<int64_t>({0, 1, 2, 3}), signs = ones({4, 6});
  Autocast scope(bfloat16);
  std::vector<std::pair<const char *, Tensor>> results = {
      {"exp", exp(x)},
      {"log", log(x)},
      {"log10", log10(x)},
      {"pow", pow(x, 2.0)},
      {"rsqrt", rsqrt(x)},
      {"softplus", softplus(x)},
      {"sum", sum(x)},
      {"mean", x.mean(1)},
      {"prod", prod(x)},
      {"cumsum", cumsum(x, 1)},
      {"cumprod", cumprod(x, 1)},
      {"var", var(x)},
      {"logsumexp", logsumexp(x, 1)},
      {"norm", norm(x)},
      {"softmax", softmax(x, 1)},
      {"log_softmax", log_softmax(x, 1)},
      {"layer_norm", layer_norm(x, {6}, w, w)},
      {"rms_norm", rms_norm(x, {6}, w)},
      {"normalize", normalize(x)},
      {"cosine_similarity", cosine_similarity(x, x)},
      {"cross_entropy", cross_entropy(x, targets)},
      {"nll_loss", nll_loss(x, targets)},
      {"mse_loss", mse_loss(x, x)},
      {"mse_loss of two dtypes", mse_loss(x, ones({4, 6}))},
      {"soft_margin_loss", soft_margin_loss(x, signs)},
      {"margin_ranking_loss", margin_ranking_loss(x, x, signs)},
      {"bce", binary_cross_entropy_with_logits(x, signs)},
      {"kl_div", kl_div(x, x)},
  };
  for (const auto &[name, result] : results)
    EXPECT_EQ(result.dtype(), float32) << name;
}

TEST(Autocast, OthersTakeWhatTheyAreGiven) {
  Tensor wide = ones({2, 3}), narrow = wide.to(bfloat16), image = ones({2, 3, 4, 4}).to(bfloat16);
  Autocast scope(bfloat16);
  EXPECT_EQ(relu(wide).dtype(), float32);
  EXPECT_EQ(relu(narrow).dtype(), bfloat16);
  EXPECT_EQ(gelu(narrow).dtype(), bfloat16);
  EXPECT_EQ((narrow * 2).dtype(), bfloat16);
  EXPECT_EQ((narrow + wide).dtype(), float32);
  EXPECT_EQ(cat({narrow, narrow}, 0).dtype(), bfloat16);
  EXPECT_EQ(cat({narrow, wide}, 0).dtype(), float32);
  EXPECT_EQ(where(wide > 0, narrow, wide).dtype(), float32);
  EXPECT_EQ(max_pool2d(image, 2).dtype(), bfloat16);
  EXPECT_EQ(narrow.reshape({6}).dtype(), bfloat16);
  // Its parameters are float32; the images keep their dtype.
  EXPECT_EQ(
      batch_norm(image, zeros({3}), ones({3}), ones({3}), zeros({3}), {.training = true}).dtype(),
      bfloat16);
  EXPECT_EQ(batch_norm(image, zeros({3}), ones({3}), ones({3}), zeros({3})).dtype(), bfloat16);
}

// Of an equation the products alone are lowered; addmm adds before it rounds.
TEST(Autocast, SumsAreNotRoundedOnTheWay) {
  Autocast scope(float16);
  EXPECT_EQ(einsum("i->", {ones({70000})}).item<float>(), 70000.f);
  EXPECT_EQ(einsum("i,j->ij", {ones({2}), ones({3})}).dtype(), float32);
  Tensor a = ones({1, 80}) * 100, b = ones({80, 1}) * 10, x = ones({1, 1}) * -60000;
  EXPECT_EQ(addmm(x, a, b).item<float>(), 20000.f); // the product alone is beyond float16
}

TEST(Autocast, WhatMixesDTypesTakesWhatScopesGive) {
  manual_seed(2);
  Tensor x = randn({5, 2, 6});
  nn::Linear linear(6, 6);
  nn::LSTM lstm(6, 4);
  nn::RNN rnn(6, 4);
  Tensor expected = lstm(linear(x)).output;
  nn::KeyValueCache cache({.layers = 1, .batch = 1, .heads = 2, .size = 8, .capacity = 4});
  Autocast scope(bfloat16);
  nn::LSTMResult result = lstm(linear(x));
  for (const Tensor &each : {result.output, result.hidden, result.cell})
    EXPECT_EQ(each.dtype(), bfloat16);
  EXPECT_LT(difference(result.output, expected), 8 * kTolerance);
  EXPECT_EQ(lstm(x, result.hidden, result.cell).output.dtype(), bfloat16);
  nn::RecurrentResult state = rnn(x);
  EXPECT_EQ(rnn(x, state.hidden).hidden.dtype(), bfloat16);
  Tensor heads = matmul(randn({1, 2, 1, 8}), randn({8, 8}));
  EXPECT_EQ(heads.dtype(), bfloat16);
  EXPECT_EQ(cache.attend(0, cache.next(1), heads, heads, heads).shape(), (Shape{1, 2, 1, 8}));
  EXPECT_EQ(nn::margin_ranking_loss(linear(x), x, ones({5, 2, 6})).dtype(), float32);
  EXPECT_EQ(reciprocal(linear(x)).dtype(), float32);
}

TEST(Autocast, LeavesOtherDTypesAlone) {
  Autocast scope(bfloat16);
  Tensor wide = ones({3, 3}, float64), whole = ones({3, 3}, int64);
  EXPECT_EQ(matmul(wide, wide).dtype(), float64);
  EXPECT_EQ(matmul(whole, whole).dtype(), int64);
  EXPECT_EQ(exp(wide).dtype(), float64);
  EXPECT_EQ(sum(whole).dtype(), int64);
  EXPECT_EQ(matmul(ones({3, 3}, float16), ones({3, 3})).dtype(), bfloat16);
}

TEST(Autocast, ScopesNest) {
  Tensor x = ones({2, 2});
  EXPECT_EQ(autocast_dtype(), std::nullopt);
  {
    Autocast outer(bfloat16);
    EXPECT_EQ(autocast_dtype(), bfloat16);
    {
      Autocast inner(float16);
      EXPECT_EQ(matmul(x, x).dtype(), float16);
      Autocast off(bfloat16, false);
      EXPECT_EQ(autocast_dtype(), std::nullopt);
      EXPECT_EQ(matmul(x, x).dtype(), float32);
      EXPECT_EQ(exp(x.to(bfloat16)).dtype(), bfloat16);
    }
    EXPECT_EQ(matmul(x, x).dtype(), bfloat16);
  }
  EXPECT_EQ(matmul(x, x).dtype(), float32);
  EXPECT_MESSAGE(Autocast scope(float64), "dtype is float64; it must be bfloat16 or float16");
}

TEST(Autocast, GradientsAreOfTheParametersDType) {
  manual_seed(3);
  nn::Linear up(8, 16), down(16, 4);
  Tensor x = randn({32, 8}), y = randn({32, 4});
  auto gradients = [&](bool lower, bool inside) {
    std::vector<Tensor> parameters = {up.weight, up.bias, down.weight, down.bias};
    for (Tensor &parameter : parameters)
      parameter.zero_grad();
    Tensor loss;
    {
      Autocast scope(bfloat16, lower);
      loss = nn::mse(down(relu(up(x))), y);
      if (inside)
        loss.backward();
    }
    EXPECT_EQ(loss.dtype(), float32);
    if (!inside)
      loss.backward();
    std::vector<Tensor> result;
    for (Tensor &parameter : parameters)
      result.push_back(parameter.grad().clone().eval());
    return result;
  };
  std::vector<Tensor> exact = gradients(false, false), outside = gradients(true, false),
                      inside = gradients(true, true);
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_EQ(outside[i].dtype(), float32);
    EXPECT_LT(difference(outside[i], exact[i]), 0.03) << i;
    EXPECT_GT(difference(outside[i], exact[i]), 0) << i; // it was computed in fewer bits
    EXPECT_EQ(floats(outside[i]), floats(inside[i])) << i;
  }
}

TEST(Autocast, JittedFunctionsKeepTheirScopesApart) {
  auto product = jit([](const Tensor &x) { return matmul(x, x); });
  Tensor x = ones({4, 4}) * 0.1;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(product(x).dtype(), float32);
    Autocast scope(bfloat16);
    EXPECT_EQ(product(x).dtype(), bfloat16);
    Autocast other(float16);
    EXPECT_EQ(product(x).dtype(), float16);
    Autocast off(float16, false);
    EXPECT_EQ(product(x).dtype(), float32);
  }
  // A scope of its own goes with the function.
  auto inside = jit([](const Tensor &x) {
    Autocast scope(bfloat16);
    return matmul(x, x);
  });
  EXPECT_EQ(inside(x).dtype(), bfloat16);
  EXPECT_EQ(matmul(x, x).dtype(), float32);
}

TEST(Autocast, ATraceKeepsTheScopeItWasMadeIn) {
  nn::Linear layer(4, 3);
  Tensor x = ones({2, 4});
  Program outside = trace(layer, {x});
  std::optional<Program> inside;
  {
    Autocast scope(bfloat16);
    inside = trace(layer, {x});
    EXPECT_EQ(outside.run({x})[0].dtype(), float32);
  }
  EXPECT_EQ(inside->run({x})[0].dtype(), bfloat16);
  EXPECT_LT(difference(inside->run({x})[0], outside.run({x})[0]), 2 * kTolerance);
}

// Batches of several sizes share programs, whose products are narrow as well.
TEST(Autocast, BatchesOfAnySizeAgreeWithFloat32) {
  manual_seed(5);
  nn::Linear up(48, 64), down(64, 10);
  for (int64_t batch : {7, 8, 9, 31, 32, 33, 40}) {
    Tensor x = randn({batch, 48});
    auto run = [&](bool lower) {
      Autocast scope(bfloat16, lower);
      return down(gelu(up(x))).eval();
    };
    EXPECT_LT(difference(run(true), run(false)), 2 * kTolerance) << batch;
  }
}

TEST(Autocast, TheTableSaysWhatAFunctionDoes) {
  EXPECT_EQ(autocast_rule("matmul"), AutocastRule::kLower);
  EXPECT_EQ(autocast_rule("softmax"), AutocastRule::kFloat32);
  EXPECT_EQ(autocast_rule("relu"), AutocastRule::kAsGiven);
  EXPECT_EQ(autocast_rule("a function of a plugin"), AutocastRule::kAsGiven);
}

// A network of each kind of layer learns as it does in float32.
TEST(Autocast, TrainsToTheSameLoss) {
  auto train = [](bool lower) {
    manual_seed(4);
    nn::Linear up(2, 64), middle(64, 64), down(64, 1);
    std::vector<Tensor> parameters;
    for (const nn::Linear &layer : {up, middle, down})
      for (const Tensor &parameter : layer.parameters())
        parameters.push_back(parameter);
    nn::LayerNorm norm(Shape{64}, {.affine = false});
    optim::AdamW optimizer(parameters, {.lr = 3e-3});
    double last = 0;
    for (int step = 0; step < 200; ++step) {
      Tensor x = rand({64, 2}) * 2 - 1, y = (x * x).sum(1, true) + 1;
      Tensor loss;
      {
        Autocast scope(bfloat16, lower);
        loss = nn::mse(down(relu(middle(norm(relu(up(x)))))), y);
      }
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      if (step >= 190)
        last += loss.item<float>() / 10;
      else if (step % 10 == 9)
        loss.eval();
    }
    for (const Tensor &parameter : parameters)
      EXPECT_EQ(parameter.dtype(), float32);
    // Relative to what is learnt, whose mean square is about 2.9.
    return last;
  };
  double exact = train(false), lower = train(true);
  EXPECT_LT(exact, 0.05);
  EXPECT_NEAR(lower, exact, 0.01 * 2.9);
}

} // namespace
} // namespace weft
