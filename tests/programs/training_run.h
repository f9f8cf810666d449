// A training run whose losses PyTorch gave (tests/golden/make_golden_*programs*.py,
// make_golden_architectures.py), taken again by Weft.
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

  const Tensor &operator[](const std::string &key) const {
    return file[name + "." + key];
  }

  template <typename M> M started(M model) const {
    model.load_state(file.under(name + ".start"));
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
      Tensor loss = loss_of(static_cast<int64_t>(step));
      optimizer.zero_grad();
      loss.backward();
      if (clip > 0)
        optim::clip_grad_norm(optimizer.parameters(), clip);
      optimizer.step();
      after();
      ASSERT_NEAR(loss.item<float>(), expected[step], tolerance * std::abs(expected[step]))
          << name << ", step " << step;
    }
    EXPECT_LE(compiles.count(), most_compiles) << name;
  }
};

} // namespace weft::tests
