// A training run whose losses PyTorch gave (tests/golden/make_golden_*programs*.py,
// make_golden_architectures.py), taken again by Weft; then its step once more as it is called,
// jitted and traced.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/golden/golden_file.h"
#include "tests/programs/three_ways.h"
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

  // The first step, three times. Afterwards the state is what it was.
  void compare_recorded(optim::Optimizer &optimizer,
                        const std::function<Tensor(int64_t)> &loss_of) const {
    ThreeWays ways{.written = written_by(optimizer), .calls = 3};
    ways.written.insert(ways.written.end(), written.begin(), written.end());
    ways.compare([&] { return take_step(optimizer, loss_of, 0); });
  }
};

} // namespace weft::tests
