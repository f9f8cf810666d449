// A training run whose losses PyTorch gave (tests/golden/make_golden_*programs*.py,
// make_golden_architectures.py), taken again by Weft; then its step once more as it is called,
// jitted and traced.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/golden/golden_file.h"
#include "tests/support/compiles.h"
#include "weft/weft.h"

namespace weft::tests {

struct TrainingRun {
  const golden::GoldenFile &file;
  std::string name; // its tensors are NAME.start.PARAMETER, NAME.losses and what it reads
  // Of all steps. Where a step reads its part of a tensor, x[step], there are two programs: the
  // second one serves all parts.
  uint64_t most_compiles = 2;
  double tolerance =
      1e-4; // of a loss, relative: the same steps in float32, in another order of additions
  double clip = 0;
  // Why the step cannot be recorded: it assigns handles from before it, or asks for a value.
  const char *not_recorded = nullptr;
  mutable std::vector<Tensor> written = {}; // buffers of models: batch statistics

  const Tensor &operator[](const std::string &key) const {
    return file[name + "." + key];
  }

  template <typename M> M started(M model) const {
    model.load_state(file.under(name + ".start"));
    for (const auto &[tensor_name, tensor] : model.named_buffers())
      written.push_back(tensor);
    return model;
  }

  // As many steps as the golden run has; after() may do what a user does after one.
  void train(
      optim::Optimizer &optimizer, const std::function<Tensor(int64_t)> &loss_of,
      const std::function<void()> &after = [] {}) const {
    std::vector<double> expected = (*this)["losses"].to_vector<double>();
    ASSERT_FALSE(expected.empty()) << name;
    Compiles compiles;
    for (size_t step = 0; step < expected.size(); ++step) {
      Tensor loss = take_step(optimizer, loss_of, static_cast<int64_t>(step));
      after();
      ASSERT_NEAR(loss.item<float>(), expected[step], tolerance * std::abs(expected[step]))
          << name << ", step " << step;
    }
    EXPECT_LE(compiles.count(), most_compiles) << name;
    if (!not_recorded)
      compare_recorded(optimizer, loss_of);
  }

private:
  Tensor take_step(optim::Optimizer &optimizer, const std::function<Tensor(int64_t)> &loss_of,
                   int64_t step) const {
    Tensor loss = loss_of(step);
    optimizer.zero_grad();
    loss.backward();
    if (clip > 0)
      optim::clip_grad_norm(optimizer.parameters(), clip);
    optimizer.step();
    return loss;
  }

  // The first step three times from one state: each way has the bits of the calls. Afterwards the
  // state is what it was.
  void compare_recorded(optim::Optimizer &optimizer,
                        const std::function<Tensor(int64_t)> &loss_of) const {
    std::vector<Tensor> state = written, before;
    state.insert(state.end(), optimizer.parameters().begin(), optimizer.parameters().end());
    for (const auto &[tensor_name, tensor] : optimizer.state())
      state.push_back(tensor);
    {
      NoGrad no_grad;
      for (const Tensor &tensor : state)
        before.push_back(tensor.clone());
    }
    eval(before);
    auto step = [&] {
      return take_step(optimizer, loss_of, 0);
    };
    auto losses_of = [&](const std::function<Tensor()> &call) {
      std::vector<double> losses;
      for (int i = 0; i < 3; ++i)
        losses.push_back(call().to(float64).item<double>());
      return losses;
    };
    auto put_back = [&] {
      NoGrad no_grad;
      for (size_t i = 0; i < state.size(); ++i)
        Tensor(state[i]).copy_(before[i]);
      eval(state);
      optimizer.zero_grad();
      manual_seed(5);
    };
    put_back();
    Program traced = trace(step, std::tuple<>());
    std::vector<double> called = losses_of(step);
    put_back();
    auto jitted = jit(step);
    EXPECT_EQ(losses_of(jitted), called) << name << ", jitted";
    put_back();
    EXPECT_EQ(losses_of([&] { return traced.run({})[0]; }), called) << name << ", traced";
    put_back();
  }
};

} // namespace weft::tests
