// Recurrent layers and other programs in which steps, parts or layers stand in front of the batch
// for a while, over many batch sizes: how many programs are compiled, and that they compute what
// static ones compute.
#include <gtest/gtest.h>

#include "frontend/tests/symbolic_fixture.h"

namespace weft {
namespace {

// The library takes the products at each of them.
const std::vector<int64_t> kBatches = {24, 32, 17, 31, 20, 24, 18};

class SymbolicSequences : public Symbolic {
protected:
  // f of [n, 6, 32], and the gradients by the layer's parameters.
  template <typename Layer, typename F> void compare_training(const Layer &layer, const F &f) {
    for (const Tensor &parameter : layer.parameters())
      parameter.eval();
    compare(kBatches, 2, [&](int64_t n) {
      Tensor y = f(input(n, {6, 32}, 1));
      std::vector<Tensor> outputs =
          grad({y.square().reshape({n, -1}).sum(1).mean()}, layer.parameters());
      outputs.push_back(y.detach());
      return outputs;
    });
  }
  template <typename F> void compare_inference(const F &f) {
    compare(kBatches, 2, [&](int64_t n) {
      NoGrad no_grad;
      return std::vector<Tensor>{f(input(n, {6, 32}, 2))};
    });
  }
};

TEST_F(SymbolicSequences, RecurrentLayersTrain) {
  nn::GRU gru(32, 48, {.batch_first = true});
  compare_training(gru, [&](const Tensor &x) { return gru(x).output; });
  nn::RNN rnn(32, 48, {.num_layers = 2, .batch_first = true});
  compare_training(rnn, [&](const Tensor &x) { return rnn(x).output.select(1, 5); });
  nn::LSTM lstm(32, 48, {.num_layers = 2, .batch_first = true, .bidirectional = true});
  compare_training(lstm, [&](const Tensor &x) { return lstm(x).output; });
}

// The layers stand in front of the batch in the last states.
TEST_F(SymbolicSequences, LastStates) {
  nn::LSTM lstm(32, 48, {.batch_first = true, .bidirectional = true});
  compare_training(lstm, [&](const Tensor &x) {
    auto [output, hidden, cell] = lstm(x);
    return cat({hidden[-2], hidden[-1]}, 1) * cell.transpose(0, 1).reshape({x.size(0), 96});
  });
  nn::GRU gru(32, 32, {.num_layers = 2, .batch_first = true});
  compare_training(gru, [&](const Tensor &x) {
    Tensor hidden = gru(x, zeros({2, x.size(0), 32})).hidden;
    return gru(x, tanh(hidden.flip({0})) * 2.0).output;
  });
}

// A step's states are there when the program runs, and the next one takes them.
TEST_F(SymbolicSequences, StatesThatAreKept) {
  nn::LSTM lstm(32, 48, {.num_layers = 2, .batch_first = true});
  for (const Tensor &parameter : lstm.parameters())
    parameter.eval();
  auto run = [&](int64_t n) {
    NoGrad no_grad;
    std::vector<float> values;
    Tensor hidden, cell;
    for (int step = 0; step < 3; ++step) {
      auto result = lstm(input(n, {4, 32}, step), hidden, cell);
      hidden = result.hidden, cell = result.cell;
      values.push_back(result.output.sum({1, 2}).to_vector<float>().back());
    }
    EXPECT_EQ(hidden.shape(), (Shape{2, n, 48}));
    values.push_back((hidden[1] * cell[0]).sum(1).to_vector<float>().back());
    return values;
  };
  uint64_t before = compiles();
  std::vector<std::vector<float>> results;
  for (int64_t n : kBatches)
    results.push_back(run(n));
  uint64_t programs = compiles() - before;
  Config options = config();
  options.symbolic = false;
  set_config(options);
  for (size_t i = 0; i < kBatches.size(); ++i)
    EXPECT_EQ(run(kBatches[i]), results[i]) << kBatches[i];
  if (has_sizes()) // a first step, another one, and where a state is read; each for two sizes
    EXPECT_LE(programs, 6u);
}

TEST_F(SymbolicSequences, StepsInFront) {
  nn::Linear layer(32, 40);
  auto by_steps = [&](const Tensor &x) {
    std::vector<Tensor> steps;
    for (const Tensor &step : x.transpose(0, 1).unbind(0))
      steps.push_back(layer(step));
    return steps;
  };
  compare_training(layer, [&](const Tensor &x) { return stack(by_steps(x), 0).mean(0); });
  compare_training(layer, [&](const Tensor &x) {
    Tensor steps = stack(by_steps(x), 0);
    return (softmax(steps, 2) + softmax(steps, 0)).narrow(0, 1, 4).sum({0});
  });
  compare_training(layer, [&](const Tensor &x) {
    Tensor steps = x.transpose(0, 1);
    Tensor both = tanh(steps) * 2.0 + steps.flip({0}) + arange(6).reshape({6, 1, 1});
    return layer(layer_norm(both, {32}).transpose(0, 1));
  });
  compare_training(layer, [&](const Tensor &x) {
    Tensor parts = layer(x).reshape({x.size(0), 6, 2, 20}).permute({2, 1, 0, 3});
    return (parts[0] * max(parts, 0)).permute({1, 0, 2}) * 2.0;
  });
}

// What a product gives for a row does not depend on where it stands.
TEST_F(SymbolicSequences, RowsOfStepsInFront) {
  nn::LSTM lstm(32, 48, {.num_layers = 2});
  compare_inference(
      [&](const Tensor &x) { return lstm(x.transpose(0, 1)).output.transpose(0, 1) * 2.0; });
  nn::Linear layer(32, 40);
  compare_inference([&](const Tensor &x) { return relu(layer(x.transpose(0, 1))).mean(0); });
}

// A sum over such rows would add them up in another order; and results lie as they are asked for.
TEST_F(SymbolicSequences, WhatNeedsItsOrderSaysSo) {
  if (!has_sizes())
    return;
  nn::Linear layer(32, 40);
  auto reason = [&](auto f) {
    for (int64_t n : {24, 32})
      f(input(n, {6, 32}, 3)).eval();
    return last().not_symbolic;
  };
  auto expect = [](const std::string &text, const std::string &part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  };
  expect(reason([&](const Tensor &x) {
           return grad({tanh(layer(x.transpose(0, 1))).mean()}, {layer.bias})[0];
         }),
         "weft.reduce_sum: a size that varies is not that of the leading dimension of [6, s0, 40], "
         "whose rows it takes together; keep it first, as batch_first does (");
  expect(reason([&](const Tensor &x) { return tanh(x.transpose(0, 1)); }),
         "weft.tanh: a size that varies is not that of the leading dimension of [6, s0, 32], which "
         "is a result of the program; keep it first (");
  // Along a column that is a row where the batch is in front.
  expect(reason([&](const Tensor &x) { return (x.select(2, 0).transpose(0, 1) * 2.0).sum(0); }),
         "weft.reduce_sum: a size that varies is not that of the leading dimension of [6, s0]");
}

} // namespace
} // namespace weft
