// Recurrent layers: what they register and refuse, dropout between layers, copies, and how a loop
// over them compiles. Their values are compared with PyTorch's in tests/golden.
#include <algorithm>
#include <cmath>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "weft/nn/nn.h"
#include "weft/weft.h"

namespace weft::nn {
namespace {

std::vector<float> floats(const Tensor &tensor) {
  return tensor.to_vector<float>();
}

TEST(Recurrent, RegistersPyTorchsNames) {
  manual_seed(1);
  LSTM lstm(3, 4, {.num_layers = 2, .bidirectional = true});
  std::vector<std::string> names;
  for (const auto &[name, tensor] : lstm.named_parameters()) {
    names.push_back(name);
    float largest = 0;
    for (float value : floats(tensor))
      largest = std::max(largest, std::abs(value));
    EXPECT_TRUE(largest <= 0.5f && largest > 0.25f) << name << " " << largest;
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{
                "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse",
                "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse", "weight_ih_l1",
                "weight_hh_l1", "bias_ih_l1", "bias_hh_l1", "weight_ih_l1_reverse",
                "weight_hh_l1_reverse", "bias_ih_l1_reverse", "bias_hh_l1_reverse"}));
  NamedTensors parameters = lstm.named_parameters();
  EXPECT_EQ(parameters[0].second.shape(), (Shape{16, 3}));
  EXPECT_EQ(parameters[8].second.shape(), (Shape{16, 8}));
  EXPECT_EQ(GRU(3, 4, {.bias = false}).parameter_count(), 12 * 3 + 12 * 4);
  auto [output, hidden, cell] = lstm(randn({5, 2, 3}));
  EXPECT_EQ(output.shape(), (Shape{5, 2, 8}));
  EXPECT_EQ(hidden.shape(), (Shape{4, 2, 4}));
  EXPECT_EQ(cell.shape(), (Shape{4, 2, 4}));
}

TEST(Recurrent, NamesWhatIsWrong) {
  GRU gru(3, 4);
  EXPECT_MESSAGE(gru(randn({5, 2, 2})),
                 "GRU: x is float32 [5, 2, 2]; it must be [T, B, 3], or [T, 3] without a batch");
  EXPECT_MESSAGE(gru(randn({3})), "it must be [T, B, 3]");
  EXPECT_MESSAGE(gru(ones({5, 2, 3}, float64)), "the parameters are float32; convert with to()");
  EXPECT_MESSAGE(gru(zeros({0, 2, 3})), "at least one step");
  EXPECT_MESSAGE(gru(randn({5, 2, 3}), zeros({2, 4})),
                 "hidden is float32 [2, 4]; it must be float32 [1, 2, 4]");
  EXPECT_MESSAGE(gru(randn({5, 3}), zeros({1, 2, 4})), "it must be float32 [1, 4]");
  LSTM lstm(3, 4, {.batch_first = true});
  EXPECT_MESSAGE(lstm(randn({5, 2, 2})), "[B, T, 3]");
  EXPECT_MESSAGE(lstm(randn({5, 2, 3}), zeros({1, 5, 4})), "both be given");
  EXPECT_MESSAGE(lstm(randn({5, 2, 3}), zeros({1, 5, 4}), zeros({1, 2, 4})),
                 "cell is float32 [1, 2, 4]; it must be float32 [1, 5, 4]");
  EXPECT_MESSAGE(RNN(0, 4), "must be at least 1, they are 0 and 4");
  EXPECT_MESSAGE(RNN(3, 4, {.num_layers = 0}), "num_layers");
  EXPECT_MESSAGE(RNN(3, 4, {.dropout = 1}), "dropout");
}

TEST(Recurrent, DropsOutBetweenLayersInTrainingOnly) {
  manual_seed(2);
  GRU gru(3, 64, {.num_layers = 2, .dropout = 0.5});
  Tensor x = randn({2, 1, 3});
  EXPECT_NE(floats(gru(x).output), floats(gru(x).output));
  // The first layer's state is what it was before the dropout.
  EXPECT_EQ(floats(gru(x).hidden[0]), floats(gru(x).hidden[0]));
  gru.eval();
  EXPECT_EQ(floats(gru(x).output), floats(gru(x).output));
}

TEST(Recurrent, StepByStepIsTheWholeSequence) {
  manual_seed(3);
  LSTM lstm(3, 5, {.num_layers = 2});
  Tensor x = randn({4, 2, 3}), hidden, cell;
  auto [output, last, last_cell] = lstm(x);
  for (int64_t t = 0; t < 4; ++t) {
    auto [one, h, c] = lstm(x.narrow(0, t, 1), hidden, cell);
    hidden = h, cell = c;
    std::vector<float> a = floats(one.flatten()), b = floats(output[t].flatten());
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_NEAR(a[i], b[i], 1e-6);
  }
  std::vector<float> a = floats(cell), b = floats(last_cell);
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], 1e-6);
}

TEST(Recurrent, ACloneIsItsOwn) {
  manual_seed(4);
  RNN rnn(2, 3, {.nonlinearity = Nonlinearity::kReLU});
  RNN copy = clone(rnn);
  Tensor x = randn({4, 2});
  EXPECT_EQ(floats(rnn(x).output), floats(copy(x).output));
  {
    NoGrad no_grad;
    rnn.parameters()[0].zero_();
  }
  EXPECT_NE(floats(rnn(x).output), floats(copy(x).output));
}

// The steps' gradients by the input meet side by side, not as sums of tensors that are mostly
// zeros.
TEST(Recurrent, GradientsOfStepsAreLinear) {
  manual_seed(5);
  RNN rnn(4, 4);
  auto ops_of = [&](int64_t length) {
    Tensor x = randn({length, 2, 4}).requires_grad_();
    eval({x});
    uint64_t before = statistics().recorded_ops;
    rnn(x).output.square().sum().backward();
    uint64_t ops = statistics().recorded_ops - before;
    EXPECT_EQ(x.grad().shape(), x.shape());
    rnn.zero_grad();
    return static_cast<double>(ops);
  };
  double ten = ops_of(10), forty = ops_of(40);
  EXPECT_LT(forty, 4.2 * ten);
}

// A step is a part of what all steps have, and its kernel the same as the others'.
TEST(Recurrent, KernelsDoNotGrowWithTheSteps) {
  manual_seed(7);
  LSTM lstm(8, 16);
  auto kernels_of = [&](int64_t length) {
    Tensor x = randn({length, 2, 8});
    eval({x});
    std::vector<Tensor> gradients = grad({lstm(x).output.square().sum()}, lstm.parameters());
    return explain(gradients[1]).kernels;
  };
  EXPECT_LE(kernels_of(80), kernels_of(20) + 6);
}

TEST(Cells, AreStepsOfTheLayers) {
  manual_seed(8);
  LSTM lstm(3, 5);
  LSTMCell cell(3, 5);
  NamedTensors state;
  for (const auto &[name, tensor] : lstm.named_parameters())
    state.emplace_back(name.substr(0, name.size() - 3), tensor); // without "_l0"
  cell.load_state(state);
  EXPECT_EQ(cell.weight_ih.shape(), (Shape{20, 3}));
  EXPECT_EQ(cell.hidden_size(), 5);
  Tensor x = randn({4, 2, 3}), h, c;
  for (int64_t t = 0; t < 4; ++t)
    std::tie(h, c) = cell(x[t], h, c);
  auto [output, last, last_cell] = lstm(x);
  std::vector<float> a = floats(h), b = floats(last), a_cell = floats(c),
                     b_cell = floats(last_cell);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], b[i], 1e-6);
    EXPECT_NEAR(a_cell[i], b_cell[i], 1e-6);
  }
  LSTMCell copy = clone(cell);
  EXPECT_FALSE(copy.weight_hh.is_same(cell.weight_hh));
  EXPECT_EQ(floats(copy(x[0]).first), floats(cell(x[0]).first));
  // Of a narrow dtype, and under a scope, the states stay what they were.
  GRUCell half = to(GRUCell(3, 5), bfloat16);
  EXPECT_EQ(half(x[0].to(bfloat16)).dtype(), bfloat16);
  GRUCell gru(3, 5, {.bias = false});
  EXPECT_FALSE(gru.bias_hh.defined());
  Autocast scope(bfloat16);
  Tensor state_of = gru(x[0]);
  state_of = gru(x[1], state_of);
  EXPECT_EQ(state_of.dtype(), bfloat16);
}

TEST(Cells, NameWhatIsWrong) {
  GRUCell gru(3, 4);
  EXPECT_MESSAGE(gru(randn({2, 2})),
                 "GRUCell: x has shape [2, 2]; it must be [B, 3], or [3] without a batch");
  EXPECT_MESSAGE(gru(randn({1, 2, 3})), "it must be [B, 3]");
  EXPECT_MESSAGE(gru(ones({2, 3}, float64)),
                 "GRUCell: x is float64 [2, 3], the parameters are float32; convert with to()");
  EXPECT_MESSAGE(gru(randn({2, 3}), zeros({4})),
                 "GRUCell: hidden is float32 [4]; it must be float32 [2, 4]");
  EXPECT_MESSAGE(gru(randn({3}), zeros({1, 4})), "it must be float32 [4]");
  LSTMCell lstm(3, 4);
  EXPECT_MESSAGE(lstm(randn({2, 3}), zeros({2, 4})),
                 "LSTMCell: hidden and cell must both be given");
  EXPECT_MESSAGE(lstm(randn({2, 3}), zeros({2, 4}), zeros({1, 4})),
                 "LSTMCell: cell is float32 [1, 4]; it must be float32 [2, 4]");
  EXPECT_MESSAGE(RNNCell(3, 0), "RNNCell: the sizes of input and state must be at least 1");
  EXPECT_EQ(testing_support::error_of([&] { gru(randn({2})); }).line(), __LINE__);
}

TEST(Recurrent, TrainingIsOneProgram) {
  manual_seed(6);
  struct Net : Module {
    LSTM lstm = child("lstm", LSTM(1, 16));
    Linear head = child("head", Linear(16, 1));
    Tensor operator()(const Tensor &x) const {
      return head(lstm(x).output);
    }
  } net;
  optim::Adam optimizer(net.parameters(), {.lr = 1e-2});
  Statistics before = statistics();
  float first = 0, last = 0;
  for (int step = 0; step < 80; ++step) {
    // Sines of changing phase: the next value from those before.
    std::vector<float> wave;
    for (int t = 0; t < 13; ++t)
      for (int b = 0; b < 4; ++b)
        wave.push_back(
            std::sin(0.6f * static_cast<float>(t) + 0.7f * static_cast<float>(b + step)));
    Tensor x = Tensor::from(wave, {13, 4, 1});
    Tensor loss = mse(net(x.narrow(0, 0, 12)), x.narrow(0, 1, 12));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    last = loss.item<float>();
    if (step == 0)
      first = last;
  }
  Statistics after = statistics();
  EXPECT_EQ(after.compiles - before.compiles, 1u);
  EXPECT_LT(last, 0.2f * first) << first;
}

} // namespace
} // namespace weft::nn
