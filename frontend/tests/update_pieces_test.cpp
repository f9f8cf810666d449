// A large gradient that only the update of its weight reads is never whole: a step takes weights,
// moments and a piece. The numbers are those of a step whose gradient is kept, bit for bit.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

namespace weft {
namespace {

constexpr int64_t kWidth = 2048, kRows = 24;
constexpr int64_t kGradient = kWidth * kWidth * 4; // kLeastInPieces (compiler/plan/Limits.h)
constexpr int64_t kSmall = kGradient / 2;          // a piece, activations, and what calls work in

using MakeOptimizer =
    std::function<std::shared_ptr<optim::Optimizer>(const std::vector<Tensor> &parameters)>;

struct Case {
  const char *name;
  MakeOptimizer make;
  int moments; // per weight
};

template <class Optimizer, class Options> MakeOptimizer maker(Options options) {
  return [=](const std::vector<Tensor> &parameters) {
    return std::make_shared<Optimizer>(parameters, options);
  };
}

const Case kCases[] = {
    {"SGD", maker<optim::SGD>(optim::SGDOptions{.lr = 0.1}), 0},
    {"momentum",
     maker<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-2}), 1},
    {"Adam", maker<optim::Adam>(optim::AdamOptions{.weight_decay = 1e-2}), 2},
    {"AdamW", maker<optim::AdamW>(optim::AdamWOptions{}), 2},
    {"amsgrad", maker<optim::Adam>(optim::AdamOptions{.amsgrad = true}), 3},
    {"NAdam", maker<optim::NAdam>(optim::NAdamOptions{}), 2},
    {"RAdam", maker<optim::RAdam>(optim::RAdamOptions{}), 2},
};

// Two weights whose shapes are one, so that they share kernels.
struct Wide : nn::Module {
  Tensor operator()(const Tensor &x) const {
    return second(relu(first(x)));
  }
  nn::Linear first = child("first", nn::Linear(kWidth, kWidth));
  nn::Linear second = child("second", nn::Linear(kWidth, kWidth));
};

enum class Keep { kNothing, kGradients, kNorm };

// A step as a jit function ends its gradients, unless it keeps them or reads them for more than the
// update.
struct Step {
  Wide model;
  std::shared_ptr<optim::Optimizer> optimizer;
  Tensor target;
  Keep keep;

  Tensor operator()(const Tensor &x) {
    optimizer->zero_grad();
    Tensor loss = mse_loss(model(x), target);
    loss.backward();
    if (keep == Keep::kNorm)
      optim::clip_grad_norm(model.parameters(), 1e9); // that never clips, but is computed
    optimizer->step();
    if (keep != Keep::kGradients)
      optimizer->zero_grad();
    return loss;
  }
};

Step make_step(const Case &each, Keep keep) {
  manual_seed(3);
  Wide model;
  Step step{model, each.make(model.parameters()), randn({kRows, kWidth}).eval(), keep};
  return step;
}

struct Trained {
  std::vector<float> losses, weights;
  int64_t peak = 0;
  std::string notes;
};

Trained train(const Case &each, Keep keep, bool jitted) {
  Step step = make_step(each, keep);
  Tensor x = randn({kRows, kWidth}).eval();
  auto program = jit(step);
  Trained trained;
  for (int i = 0; i < 3; ++i)
    trained.losses.push_back((jitted ? program(x) : step(x)).item<float>());
  synchronize();
  // The step's own evaluation, not the one that reads the loss.
  for (const Evaluation &evaluation : recent_evaluations())
    if (evaluation.library_calls > 0) {
      trained.peak = evaluation.planned_peak_bytes;
      trained.notes.clear();
      for (const std::string &note : evaluation.notes)
        trained.notes += note + "\n";
    }
  for (const auto &[name, parameter] : step.model.named_parameters()) {
    std::vector<float> values = parameter.to_vector<float>();
    trained.weights.insert(trained.weights.end(), values.begin(), values.end());
  }
  return trained;
}

TEST(UpdateInPieces, TakesNoGradientAndKeepsTheBits) {
  for (const Case &each : kCases) {
    SCOPED_TRACE(each.name);
    Trained whole = train(each, Keep::kGradients, true), pieces = train(each, Keep::kNothing, true);
    EXPECT_GT(whole.peak, 2 * kGradient); // both are results
    EXPECT_LT(pieces.peak, kSmall);
    EXPECT_EQ(pieces.losses, whole.losses);
    EXPECT_EQ(pieces.weights, whole.weights);
    EXPECT_LT(pieces.losses[2], pieces.losses[0]);
    EXPECT_NE(whole.notes.find("gradient-is-held"), std::string::npos) << whole.notes;
    EXPECT_EQ(pieces.notes.find("gradient-is-held"), std::string::npos) << pieces.notes;
  }
}

TEST(UpdateInPieces, IsSeenInAnEstimateAndInATrace) {
  for (const Case &each : kCases) {
    SCOPED_TRACE(each.name);
    Step step = make_step(each, Keep::kNothing);
    Tensor x = randn({kRows, kWidth}).eval();
    MemoryEstimate estimate = estimate_memory(step, {x}, {{"model", step.model}});
    int64_t parameters = 2 * (kWidth * kWidth + kWidth) * 4;
    EXPECT_GE(estimate.state, (1 + each.moments) * parameters);
    EXPECT_LT(estimate.peak(), (1 + each.moments) * parameters + kSmall);
    Program program = trace(step, {x}, {{"model", step.model}});
    program.run({x});
    synchronize();
    EXPECT_LT(recent_evaluations().back().planned_peak_bytes, kSmall);
  }
}

TEST(UpdateInPieces, LeavesWholeWhatMoreThanTheUpdateReads) {
  Trained clipped = train(kCases[1], Keep::kNorm, true);
  EXPECT_GT(clipped.peak, kGradient);
  EXPECT_NE(clipped.notes.find("gradient-read-elsewhere"), std::string::npos) << clipped.notes;
}

// Called, the step ends before zero_grad() lets the gradients go.
TEST(UpdateInPieces, GivesTheNumbersOfACalledStep) {
  Trained called = train(kCases[2], Keep::kNothing, false),
          jitted = train(kCases[2], Keep::kNothing, true);
  EXPECT_EQ(called.losses, jitted.losses);
  EXPECT_EQ(called.weights, jitted.weights);
}

} // namespace
} // namespace weft
