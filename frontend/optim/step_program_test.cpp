// A training loop, written in any usual way, is one program, compiled in its first step and run
// once in each.
#include <cmath>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "weft/nn/nn.h"
#include "weft/optim/optim.h"
#include "weft/weft.h"

namespace weft::optim {
namespace {

constexpr int kSteps = 5;

struct Net : nn::Module {
  nn::Linear up = child("up", nn::Linear(2, 8));
  nn::Dropout dropout = child("dropout", nn::Dropout(0.1));
  nn::Linear down = child("down", nn::Linear(8, 1));
  Tensor operator()(const Tensor &x) {
    return down(dropout(tanh(up(x))));
  }
};

// Runs the loop's body; afterwards: one evaluation a step, all for `reason`, the first one
// compiled, the others hits.
void expect_one_program(CutReason reason, const std::function<void(int step)> &body) {
  std::vector<Evaluation> seen;
  Statistics before = statistics();
  for (int step = 0; step < kSteps; ++step)
    body(step);
  Statistics after = statistics();
  std::string lines;
  for (const Evaluation &evaluation : recent_evaluations())
    if (evaluation.number > before.evaluations) {
      lines += evaluation.to_string() + "\n";
      EXPECT_EQ(evaluation.reason, reason);
    }
  EXPECT_EQ(after.compiles - before.compiles, 1u) << lines;
  EXPECT_EQ(after.evaluations - before.evaluations, static_cast<uint64_t>(kSteps)) << lines;
}

TEST(StepProgram, DataDrawnInTheLoop) {
  Net model;
  AdamW optimizer(model.parameters(), {.lr = 1e-2});
  expect_one_program(CutReason::kStep, [&](int step) {
    Tensor x = rand({64, 2});
    Tensor y = (x * x).sum(1, true);
    Tensor loss = nn::mse(model(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 2 == 1) {
      EXPECT_GT(loss.item<float>(), 0);
    }
  });
}

TEST(StepProgram, DataMadeBeforeTheModel) {
  manual_seed(7);
  Tensor x = rand({32, 2});
  Tensor y = (x * x).sum(1, true), best = full({}, 1e9);
  Net model;
  SGD optimizer(model.parameters(), {.lr = 1e-2, .momentum = 0.9});
  manual_seed(8);
  optimizer.set_lr(0.05);
  expect_one_program(CutReason::kStep, [&](int step) {
    optimizer.set_lr(cosine_lr(step, {.lr = 0.1, .total = kSteps}));
    optimizer.zero_grad();
    Tensor loss = nn::mse(model(x), y);
    best = minimum(best, loss.detach());
    loss.backward();
    clip_grad_norm(model.parameters(), 1.0);
    optimizer.step();
    EXPECT_LE(best.item<float>(), loss.item<float>());
  });
}

TEST(StepProgram, SeededInEachStep) {
  Net model;
  AdamW optimizer(model.parameters());
  expect_one_program(CutReason::kStep, [&](int step) {
    manual_seed(static_cast<uint64_t>(step));
    Tensor loss = model(randn({16, 2})).mean();
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    EXPECT_TRUE(std::isfinite(loss.item<float>()));
  });
}

TEST(StepProgram, SamplesDrawnBeforeTheLoopLeaveNoTrace) {
  Net model;
  AdamW optimizer(model.parameters());
  Tensor sample = rand({3});
  EXPECT_EQ(sample.to_vector<float>().size(), 3u);
  expect_one_program(CutReason::kStep, [&](int) {
    Tensor loss = square(model(rand({16, 2}))).mean();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  });
}

TEST(StepProgram, BatchesFromMemoryAndAMetric) {
  Net model;
  AdamW optimizer(model.parameters());
  optimizer.set_lr(3e-3);
  expect_one_program(CutReason::kStep, [&](int step) {
    Tensor x = Tensor::from(std::vector<float>(8, 0.1f * static_cast<float>(step)), Shape{4, 2}),
           y = tensor({{1.f}, {0.f}, {1.f}, {0.f}});
    Tensor predicted = model(x);
    Tensor loss = nn::mse(predicted, y);
    Tensor right = ((predicted > 0.5).to(float32) == y).to(float32).mean();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    EXPECT_GE(loss.item<float>(), 0);
    EXPECT_LE(right.item<float>(), 1);
  });
}

// State that nobody asks for is computed by the next step: an average of parameters would keep all
// that they have been, and a count would be a chain that grows.
TEST(StepProgram, StateThatIsWrittenBesideIt) {
  struct Seen {
    std::vector<float> average, count;
    std::vector<uint64_t> live_ops, compiles;
  };
  auto train = [](bool asks) {
    manual_seed(3);
    Net model;
    AdamW optimizer(model.parameters(), {.lr = 1e-2});
    Tensor x = rand({32, 2}).eval(), weight = model.parameters()[0];
    Tensor average = weight.detach().clone().eval(), count = zeros({1}).eval();
    Seen seen;
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      nn::mse(model(x), x.sum(1, true)).backward();
      optimizer.step();
      NoGrad off;
      average.lerp_(weight, 0.25);
      count += 1.0;
      if (asks)
        eval({average, count});
      seen.live_ops.push_back(statistics().live_ops);
      seen.compiles.push_back(statistics().compiles);
    }
    seen.average = average.to_vector<float>();
    seen.count = count.to_vector<float>();
    return seen;
  };
  Seen asked = train(true), left = train(false);
  EXPECT_EQ(left.average, asked.average);
  EXPECT_EQ(left.count, asked.count);
  // The second step is the first that finds state to compute.
  for (int step = 2; step < kSteps; ++step) {
    EXPECT_EQ(left.live_ops[step], left.live_ops[1]) << "step " << step;
    EXPECT_EQ(left.compiles[step], left.compiles[1]) << "step " << step;
  }
}

TEST(StepProgram, AnUpdateByHand) {
  Tensor x = randn({5, 4}), y = randn({5, 3});
  Tensor w = randn({4, 3}), b = zeros({3});
  w.set_requires_grad();
  b.set_requires_grad();
  expect_one_program(CutReason::kValue, [&](int) {
    Tensor loss = nn::mse(matmul(x, w) + b, y);
    loss.backward();
    {
      NoGrad no_grad;
      for (Tensor *parameter : {&w, &b}) {
        *parameter -= parameter->grad() * 0.1;
        parameter->zero_grad();
      }
    }
    EXPECT_GT(loss.item<float>(), 0);
  });
}

// The iterate is not needed for the residual that is asked for, and must not pile up.
TEST(StepProgram, ASolverThatReadsItsResidual) {
  Tensor a = tensor({{4.f, 1.f}, {1.f, 3.f}}), b = tensor({1.f, 2.f});
  Tensor x = tensor({0.f, 0.f}), r = tensor({1.f, 2.f}), p = tensor({1.f, 2.f}),
         rr = tensor({5.f}).reshape({});
  uint64_t live = statistics().live_ops;
  rr = (r * r).sum();
  eval({rr});
  float last = 5;
  expect_one_program(CutReason::kValue, [&](int) {
    Tensor ap = matmul(a, p);
    Tensor alpha = rr / ((p * ap).sum() + 1e-30);
    x = x + alpha * p;
    r = r - alpha * ap;
    Tensor next = (r * r).sum();
    p = r + next / (rr + 1e-30) * p;
    rr = next;
    last = rr.item<float>();
  });
  EXPECT_LE(statistics().live_ops, live);
  EXPECT_LT(last, 1e-8f);
  EXPECT_NEAR(x.to_vector<float>()[0], 1.0 / 11, 1e-5);
}

} // namespace
} // namespace weft::optim
