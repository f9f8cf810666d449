// How many kernels the CPU's programs of pieces of well-known networks are, forward and backward:
// what a change of fusion must not raise unnoticed. Two launches of the same code are one kernel.
// Where somebody would write fewer by hand, it says so. Jitted and traced they have the same bits.
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "tests/programs/three_ways.h"
#include "weft/weft.h"

namespace weft {
namespace {

Tensor values(const Shape &shape) {
  Tensor x = rand(shape) + 0.5;
  x.eval();
  return x;
}
Tensor parameter(const Shape &shape) {
  Tensor x = values(shape);
  x.set_requires_grad();
  return x;
}

// Kernels of the program of what `record` returns; nothing else that it recorded is alive then.
int64_t kernels(const std::function<std::vector<Tensor>()> &record) {
  std::vector<Tensor> results = record();
  eval(results);
  Evaluation evaluation = explain(results.front());
  if (testing::Test::HasFailure())
    for (const std::string &note : evaluation.notes)
      std::cout << note << "\n";
  tests::ThreeWays().compare([&] {
    std::vector<Tensor> all = record();
    for (Tensor &x : all)
      x = x.detach();
    return all;
  });
  return evaluation.kernels;
}

std::vector<Tensor> with_gradients(const Tensor &y, const std::vector<Tensor> &by) {
  static std::map<Shape, Tensor> weights; // while a function is recorded, nothing is computed
  if (!weights.count(y.shape()))
    weights[y.shape()] = values(y.shape());
  std::vector<Tensor> all = grad({y}, by, {.grad_outputs = {weights[y.shape()]}});
  all.push_back(y);
  return all;
}

std::vector<Tensor> with(std::vector<Tensor> all, const Tensor &x) {
  all.push_back(x);
  return all;
}

TEST(NetworkKernels, TransformerBlock) {
  nn::TransformerBlock block(64, 4, {.causal = true});
  Tensor x = parameter({2, 32, 64});
  EXPECT_EQ(kernels([&]() -> std::vector<Tensor> {
              NoGrad no_grad;
              return {block(x)};
            }),
            5); // attention, which leaves its heads in their places, among them
  EXPECT_EQ(kernels([&] { return with_gradients(block(x), with(block.parameters(), x)); }), 9);
}

TEST(NetworkKernels, UNetBlock) {
  nn::GroupNorm norm(8, 32);
  Tensor x = parameter({4, 32, 28, 28}), kernel = parameter({32, 32, 3, 3}),
         time = parameter({4, 32});
  auto net = [&] {
    Tensor h = conv2d(silu(norm(x)), kernel, Tensor(), {.padding = 1});
    h = h + time.reshape({4, 32, 1, 1});
    return conv2d(silu(norm(h)), kernel, Tensor(), {.padding = 1}) + x;
  };
  EXPECT_EQ(kernels([&]() -> std::vector<Tensor> { return {net()}; }), 3);
  EXPECT_EQ(kernels([&] { return with_gradients(net(), with(norm.parameters(), x)); }), 7);
}

TEST(NetworkKernels, ConvNeXtBlock) {
  nn::LayerNorm norm(Shape{32});
  nn::Linear up(32, 128), down(128, 32);
  Tensor x = parameter({4, 32, 28, 28}), depthwise = parameter({32, 1, 7, 7}),
         scale = parameter({32});
  auto net = [&] {
    Tensor h = conv2d(x, depthwise, Tensor(), {.padding = 3, .groups = 32});
    h = down(gelu(up(norm(permute(h, {0, 2, 3, 1}))))) * scale;
    return x + permute(h, {0, 3, 1, 2});
  };
  EXPECT_EQ(kernels([&]() -> std::vector<Tensor> { return {net()}; }), 3);
  EXPECT_EQ(kernels([&] { return with_gradients(net(), with(norm.parameters(), x)); }), 6);
}

// Products as small as these are kernels of ours, each of its own.
TEST(NetworkKernels, SqueezeAndExcite) {
  nn::Linear squeeze(32, 8), excite(8, 32);
  Tensor x = parameter({4, 32, 28, 28});
  auto net = [&] {
    Tensor s = sigmoid(excite(relu(squeeze(mean(x, {2, 3})))));
    return x * s.reshape({4, 32, 1, 1});
  };
  EXPECT_EQ(kernels([&]() -> std::vector<Tensor> { return {net()}; }), 6);
  EXPECT_EQ(kernels([&] { return with_gradients(net(), {x}); }), 9);
}

TEST(NetworkKernels, LstmStep) {
  Tensor x = parameter({8, 32}), h = parameter({8, 64}), c = parameter({8, 64});
  Tensor wx = parameter({256, 32}), wh = parameter({256, 64}), b = parameter({256});
  auto step = [&]() -> std::vector<Tensor> {
    Tensor gates = linear(x, wx, b) + linear(h, wh);
    Tensor i = sigmoid(gates.slice(1, 0, 64)), f = sigmoid(gates.slice(1, 64, 128));
    Tensor g = tanh(gates.slice(1, 128, 192)), o = sigmoid(gates.slice(1, 192, 256));
    Tensor next = f * c + i * g;
    return {o * tanh(next), next};
  };
  EXPECT_EQ(kernels(step), 1);
  EXPECT_EQ(kernels([&] { return with_gradients(step().front(), {x, h, c, b}); }), 2);
}

// Many products with the recurrent weight share one packed form of it (on machines where the
// library has one), forward and backward, and add the input's share themselves: bit for bit what
// the calls give one by one, each with the plain weight and a sum of its own.
TEST(NetworkKernels, UnrolledLstmHasTheBitsOfItsCalls) {
  nn::LSTM lstm(64, 64);
  Tensor x = parameter({30, 16, 64});
  auto run = [&] {
    Tensor y = lstm(x).output;
    std::vector<Tensor> all = with(grad({y.square().sum()}, {x}), y);
    eval(all);
    return all;
  };
  std::vector<Tensor> whole = run();
  Evaluation evaluation = explain(whole.front());
  // 30 and 29 products with the recurrent weight; for all steps at once: the input's share, and its
  // gradient. One call packs for each side.
  EXPECT_GE(evaluation.library_calls, 61);
  EXPECT_LE(evaluation.library_calls, 63);
  Config before = config(), eager = before;
  eager.eager = true;
  set_config(eager);
  std::vector<Tensor> called = run();
  set_config(before);
  for (size_t i = 0; i < whole.size(); ++i)
    EXPECT_EQ(whole[i].to_vector<float>(), called[i].to_vector<float>()) << i;
}

// Forward, the halves change places within the row that the norm has: one kernel.
TEST(NetworkKernels, RmsNormAndRotary) {
  Tensor x = parameter({2, 16, 4, 32}), weight = parameter({32}), cosine = values({16, 1, 32}),
         sine = values({16, 1, 32});
  auto net = [&] {
    Tensor n = rms_norm(x, {32}, weight);
    Tensor turned = cat({-n.slice(3, 16, 32), n.slice(3, 0, 16)}, 3);
    return n * cosine + turned * sine;
  };
  EXPECT_EQ(kernels([&]() -> std::vector<Tensor> { return {net()}; }), 1);
  EXPECT_EQ(kernels([&] { return with_gradients(net(), {x, weight}); }), 2);
}

// Forward, backward and update of twelve parameters of different shapes, which share no kernel. By
// hand the update would be one, over a list of pointers.
TEST(NetworkKernels, AdamStepOverManyParameters) {
  std::vector<Tensor> parameters;
  for (int64_t i = 0; i < 12; ++i)
    parameters.push_back(parameter({16 + i, 8}));
  optim::AdamW optimizer(parameters, {.lr = 1e-3});
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    Tensor loss = (parameters[0] * parameters[0]).sum();
    for (size_t i = 1; i < parameters.size(); ++i)
      loss = loss + (parameters[i] * parameters[i]).sum();
    loss.backward();
    optimizer.step();
  }
  EXPECT_EQ(recent_evaluations().back().kernels, 13);
}

TEST(NetworkKernels, Losses) {
  Tensor logits = parameter({64, 10}), masks = parameter({4, 32, 32}), truth = values({4, 32, 32});
  Tensor labels = zeros({64}, DType::kInt64);
  labels.eval();
  auto focal = [&] {
    Tensor p = sigmoid(masks),
           ce = binary_cross_entropy_with_logits(masks, truth, Reduction::kNone);
    Tensor pt = p * truth + (1 - p) * (1 - truth);
    return ((0.25 * truth + 0.75 * (1 - truth)) * square(1 - pt) * ce).mean();
  };
  EXPECT_EQ(kernels([&] { return with(grad({focal()}, {masks}), focal()); }), 1);
  auto dice = [&] {
    Tensor p = sigmoid(masks);
    Tensor both = sum(p * truth, {1, 2}), either = sum(p, {1, 2}) + sum(truth, {1, 2});
    return (1 - (2 * both + 1) / (either + 1)).mean();
  };
  EXPECT_EQ(kernels([&] { return with(grad({dice()}, {masks}), dice()); }), 1);
  auto smooth = [&] {
    return cross_entropy(logits, labels, ClassLossOptions{.label_smoothing = 0.1});
  };
  EXPECT_EQ(kernels([&] { return with(grad({smooth()}, {logits}), smooth()); }), 2);
}

// |d(sum tanh(x w1) w2)/dx| against 1, differentiated again.
TEST(NetworkKernels, GradientPenalty) {
  Tensor x = parameter({16, 8}), w1 = parameter({8, 32}), w2 = parameter({32, 1});
  EXPECT_EQ(kernels([&] {
              Tensor y = matmul(tanh(matmul(x, w1)), w2);
              Tensor slope = grad({y.sum()}, {x}, true).front();
              Tensor penalty = square(norm(slope, 2, 1) - 1).mean();
              return with(grad({penalty}, {w1, w2}), penalty);
            }),
            4);
}

} // namespace
} // namespace weft
