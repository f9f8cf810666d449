// The peak that explain plans is what the allocator sees: arena, outputs, and the scratch of
// kernels and libraries. A step of training needs no more memory jitted or traced than called.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <optional>

#include "runtime/executor/device.h"
#include "runtime/memory/allocator.h"

namespace weft {
namespace {

class CountingAllocator : public runtime::Allocator {
public:
  absl::StatusOr<void *> allocate(int64_t bytes, int64_t alignment) override {
    int64_t live = live_ += bytes, peak = peak_;
    while (live > peak && !peak_.compare_exchange_weak(peak, live)) {}
    return std::aligned_alloc(static_cast<size_t>(alignment),
                              static_cast<size_t>((bytes + alignment) / alignment * alignment));
  }
  void free(void *pointer, int64_t bytes) override {
    if (pointer)
      live_ -= bytes;
    std::free(pointer);
  }
  runtime::AllocatorStats stats() const override {
    runtime::AllocatorStats stats;
    stats.live_bytes = live_;
    stats.peak_bytes = peak_;
    return stats;
  }
  void start() {
    peak_ = live_.load();
    before_ = live_.load();
  }
  // Forgets what start() has seen since, but not what it counts from.
  void again() {
    peak_ = live_.load();
  }
  int64_t taken() const {
    return peak_ - before_;
  }

private:
  std::atomic<int64_t> live_{0}, peak_{0}, before_{0};
};

class Peak : public testing::Test {
protected:
  void SetUp() override {
    set_allocator(allocator_);
  }
  void TearDown() override {
    set_allocator(nullptr);
  }

  // `evaluate` is one evaluation, of a program that is known.
  void expect_planned(const char *what, const std::function<void()> &evaluate) {
    synchronize();
    runtime::cpu_device().executor().trim(); // earlier runs' arena
    uint64_t evaluations = statistics().evaluations;
    allocator_->start();
    evaluate();
    synchronize();
    ASSERT_EQ(statistics().evaluations, evaluations + 1) << what;
    Evaluation evaluation = recent_evaluations().back();
    auto taken = static_cast<double>(allocator_->taken()),
         planned = static_cast<double>(evaluation.planned_peak_bytes);
    EXPECT_GT(evaluation.library_calls, 0) << what;
    EXPECT_NEAR(taken, planned, 0.02 * planned) << what << ": " << evaluation.to_string();
    EXPECT_GE(evaluation.planned_peak_bytes, evaluation.lower_bound_bytes) << what;
    // Planned with the rest, and not beside it: it takes the place of what is not live then.
    EXPECT_LE(planned, 1.25 * static_cast<double>(evaluation.lower_bound_bytes)) << what;
  }

  template <class Model> void expect_planned_runs(Model model, const Tensor &x, const Tensor &y) {
    optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
    auto step = [&] {
      nn::cross_entropy(model(x), y).backward();
      optimizer.step();
    };
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      step();
    }
    optimizer.zero_grad();
    expect_planned("training", step);
    auto jitted = jit(step);
    for (int i = 0; i < 2; ++i) {
      optimizer.zero_grad();
      jitted();
    }
    optimizer.zero_grad();
    expect_planned("jitted training", [&] { jitted(); });
    optimizer.zero_grad();
    model.eval();
    Tensor logits;
    auto infer = [&] {
      NoGrad guard;
      logits = model(x).eval();
    };
    for (int i = 0; i < 6; ++i) { // weights are packed after some
      logits = Tensor();
      infer();
    }
    logits = Tensor();
    expect_planned("inference", infer);
  }

  std::shared_ptr<CountingAllocator> allocator_ = std::make_shared<CountingAllocator>();
};

// Widens, convolves each channel alone, narrows.
struct InvertedResidual : nn::Module {
  InvertedResidual(int64_t in, int64_t out, int64_t kernel, int64_t stride)
      : widen(child("widen", nn::Conv2d(in, 6 * in, 1, {.bias = false}))),
        widened(child("widened", nn::BatchNorm2d(6 * in))),
        depthwise(
            child("depthwise",
                  nn::Conv2d(
                      6 * in, 6 * in, kernel,
                      {.stride = stride, .padding = kernel / 2, .groups = 6 * in, .bias = false}))),
        convolved(child("convolved", nn::BatchNorm2d(6 * in))),
        narrow(child("narrow", nn::Conv2d(6 * in, out, 1, {.bias = false}))),
        narrowed(child("narrowed", nn::BatchNorm2d(out))) {}
  Tensor operator()(const Tensor &x) {
    Tensor wide = relu(widened(widen(x)));
    return narrowed(narrow(relu(convolved(depthwise(wide)))));
  }
  nn::Conv2d widen;
  nn::BatchNorm2d widened;
  nn::Conv2d depthwise;
  nn::BatchNorm2d convolved;
  nn::Conv2d narrow;
  nn::BatchNorm2d narrowed;
};

struct ImageNetwork : nn::Module {
  nn::Conv2d stem = child("stem", nn::Conv2d(3, 16, 3, {.stride = 2, .padding = 1}));
  InvertedResidual first = child("first", InvertedResidual(16, 24, 5, 2));
  InvertedResidual second = child("second", InvertedResidual(24, 24, 3, 1));
  InvertedResidual third = child("third", InvertedResidual(24, 40, 5, 1));
  nn::Conv2d grouped = child("grouped", nn::Conv2d(40, 64, 3, {.padding = 1, .groups = 4}));
  nn::GroupNorm norm = child("norm", nn::GroupNorm(8, 64));
  nn::Linear head = child("head", nn::Linear(64, 10));
  Tensor operator()(const Tensor &x) {
    Tensor y = third(second(first(relu(stem(x)))));
    return head(relu(norm(grouped(y))).mean({2, 3}));
  }
};

TEST_F(Peak, OfConvolutions) {
  manual_seed(1);
  Tensor x = randn({4, 3, 64, 64}).eval(), y = randint(0, 10, {4}).eval();
  expect_planned_runs(ImageNetwork(), x, y);
}

struct Products : nn::Module {
  nn::Linear up = child("up", nn::Linear(96, 512));
  nn::LayerNorm norm = child("norm", nn::LayerNorm(512));
  nn::Linear middle = child("middle", nn::Linear(512, 512));
  nn::Linear down = child("down", nn::Linear(512, 10));
  Tensor operator()(const Tensor &x) {
    return down(gelu(middle(norm(up(x)))));
  }
};

TEST_F(Peak, OfProducts) {
  manual_seed(2);
  Tensor x = randn({512, 96}).eval(), y = randint(0, 10, {512}).eval();
  expect_planned_runs(Products(), x, y);
}

// There is no matrix of scores in the plan: twice the length takes twice the memory.
TEST_F(Peak, OfAttentionAndItsDerivativeIsLinearInTheLength) {
  auto planned = [&](int64_t length, bool causal) {
    std::vector<Tensor> operands;
    for (int i = 0; i < 3; ++i) {
      operands.push_back(randn({8, length, 16}).eval());
      operands.back().set_requires_grad();
    }
    Tensor result =
        attention(operands[0], operands[1], operands[2], Tensor(), {.causal = causal, .scale = {}});
    Tensor total = result.sum();
    for (const Tensor &gradient : grad({result.sin().sum()}, operands))
      total = total + gradient.sum();
    EXPECT_TRUE(std::isfinite(total.item<float>()));
    return static_cast<double>(recent_evaluations().back().planned_peak_bytes);
  };
  for (bool causal : {false, true}) {
    double once = planned(1024, causal), twice = planned(2048, causal);
    EXPECT_LE(twice, 2.1 * once);
    EXPECT_LE(twice, 4.0 * 8 * 2048 * 2048 / 8) << "an eighth of the scores";
  }
}

// Keys and values of one head are not copied for eight heads of queries.
TEST_F(Peak, OfGroupedAttentionHasKeysOnce) {
  auto planned = [&](int64_t heads) {
    Tensor query = randn({2, 8, 64, 16}).eval(), key = randn({2, heads, 512, 16}).eval();
    Tensor result = attention(query, key, key, Tensor(),
                              {.causal = false, .scale = {}, .grouped = true});
    EXPECT_TRUE(std::isfinite(result.sum().item<float>()));
    return recent_evaluations().back().planned_peak_bytes;
  };
  EXPECT_LE(planned(1), planned(8));
}

struct Wide : nn::Module {
  nn::Linear first = child("first", nn::Linear(512, 512)),
             second = child("second", nn::Linear(512, 512)),
             third = child("third", nn::Linear(512, 512));
  Tensor operator()(const Tensor &x) {
    return third(relu(second(relu(first(x)))));
  }
};

enum class Way { kCalled, kJitted, kTraced };
enum class Zeroed { kInTheStep, kBeforeIt, kAtItsEnd, kNever };

class StepPeak : public Peak {
protected:
  using MakeOptimizer =
      std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor> &)>;

  // What training holds at most, weights and the optimizer's state included.
  int64_t peak(Way way, Zeroed zeroed, const MakeOptimizer &make,
               const std::function<Tensor(const Tensor &)> &loss_of) {
    Tensor x = zeros({32, 512}).eval();
    synchronize();
    runtime::cpu_device().executor().trim();
    allocator_->start();
    std::optional<Wide> model(std::in_place);
    std::unique_ptr<optim::Optimizer> optimizer = make(model->parameters());
    auto step = [&](const Tensor &x) {
      Tensor loss = loss_of((*model)(x));
      if (zeroed == Zeroed::kInTheStep)
        optimizer->zero_grad();
      loss.backward();
      optimizer->step();
      if (zeroed == Zeroed::kAtItsEnd)
        optimizer->zero_grad();
      return loss;
    };
    std::function<Tensor(const Tensor &)> call = step;
    if (way == Way::kJitted)
      call = jit(step);
    if (way == Way::kTraced) {
      call = [program = trace(step, {x})](const Tensor &x) {
        return program.run({x})[0];
      };
      // The program has its own.
      model.reset();
      optimizer.reset();
    }
    for (int i = 0; i < 5; ++i) {
      if (zeroed == Zeroed::kBeforeIt && optimizer)
        optimizer->zero_grad();
      if (i == 3) { // all programs are known, and all state is there
        synchronize();
        runtime::cpu_device().executor().trim();
        allocator_->again();
      }
      call(x).item<float>();
    }
    synchronize();
    return allocator_->taken();
  }
};

// Where gradients are replaced in the step, the old ones are there until it runs: their memory is
// that of the new ones, or of what else the plan has put into fresh memory.
TEST_F(StepPeak, IsNoHigherJittedOrTracedThanCalled) {
  manual_seed(3);
  Tensor y = randn({32, 512}).eval(), label = randint(0, 512, {32}).eval();
  auto free = [&](const Tensor &out) {
    return nn::mse(out, y);
  };
  auto checked = [&](const Tensor &out) { // a label may end the run: weights are not written over
    return nn::cross_entropy(out, label);
  };
  auto sgd = [](const std::vector<Tensor> &parameters) {
    return std::make_unique<optim::SGD>(parameters, optim::SGDOptions{.lr = 1e-3, .momentum = 0.9});
  };
  auto adam = [](const std::vector<Tensor> &parameters) {
    return std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.lr = 1e-3});
  };
  for (const std::function<Tensor(const Tensor &)> &loss_of :
       {std::function<Tensor(const Tensor &)>(free), {checked}})
    for (const MakeOptimizer &make : {MakeOptimizer(sgd), {adam}})
      for (Zeroed zeroed :
           {Zeroed::kInTheStep, Zeroed::kBeforeIt, Zeroed::kAtItsEnd, Zeroed::kNever}) {
        auto called = static_cast<double>(peak(Way::kCalled, zeroed, make, loss_of));
        EXPECT_GT(called, 3 * 4 * 512 * 512 * 3) << "weights, momenta, gradients";
        for (Way way : {Way::kJitted, Way::kTraced})
          EXPECT_LE(static_cast<double>(peak(way, zeroed, make, loss_of)), 1.02 * called)
              << (way == Way::kJitted ? "jitted" : "traced") << ", zeroed "
              << static_cast<int>(zeroed);
      }
}

} // namespace
} // namespace weft
