// A user's allocator sees every byte of tensors, and a failed allocation leaves everything as it
// was.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <tuple>

#include "absl/status/status.h"
#include "runtime/memory/allocator.h"
#include "runtime/memory/limit_allocator.h"
#include "runtime/memory/system_allocator.h"
#include "tests/support/errors.h"

namespace weft {
namespace {

// Counts, and fails from a given allocation on.
class TestAllocator : public runtime::Allocator {
public:
  absl::StatusOr<void *> allocate(int64_t bytes, int64_t alignment) override {
    if (--until_failure_ < 0)
      return absl::ResourceExhaustedError("the test's allocator is empty");
    void *pointer =
        std::aligned_alloc(static_cast<size_t>(alignment),
                           static_cast<size_t>((bytes + alignment) / alignment * alignment));
    live_bytes += bytes;
    peak_bytes = std::max<int64_t>(peak_bytes, live_bytes);
    ++allocations;
    return pointer;
  }
  void free(void *pointer, int64_t bytes) override {
    if (!pointer)
      return;
    live_bytes -= bytes;
    std::free(pointer);
  }
  runtime::AllocatorStats stats() const override {
    runtime::AllocatorStats stats;
    stats.live_bytes = live_bytes;
    stats.allocations = allocations;
    return stats;
  }
  void fail_after(int64_t allocations) {
    until_failure_ = allocations;
  }

  // The peak is exact where one thread allocates.
  std::atomic<int64_t> live_bytes{0}, peak_bytes{0}, allocations{0};

private:
  std::atomic<int64_t> until_failure_{INT64_MAX};
};

class Memory : public testing::Test {
protected:
  void SetUp() override {
    set_allocator(allocator_);
  }
  void TearDown() override {
    set_allocator(nullptr);
  }
  // Makes the call again, with memory, where it failed for the want of it.
  template <typename F> bool failed_first(F call) {
    try {
      call();
      allocator_->fail_after(INT64_MAX);
      return false;
    } catch (const Error &) {
      allocator_->fail_after(INT64_MAX);
      call();
      return true;
    }
  }
  std::shared_ptr<TestAllocator> allocator_ = std::make_shared<TestAllocator>();
};

TEST_F(Memory, ComesFromTheUsersAllocator) {
  {
    Tensor x = Tensor::from<float>(std::vector<float>(1000, 1.f));
    EXPECT_GE(allocator_->live_bytes, 4000);
    Tensor y = (x * 2.0 + 1.0).eval();
    synchronize();
    EXPECT_GE(allocator_->live_bytes, 8000);
    EXPECT_EQ(y.to_vector<float>()[999], 3.f);
  }
  synchronize();
  EXPECT_LT(allocator_->live_bytes, 1000); // records of evaluations hold no tensors
}

// A list of losses for the report, each of them kept with detach(), or looked at under NoGrad.
TEST_F(Memory, WhatIsDetachedKeepsNothingThatABackwardWouldNeed) {
  constexpr int64_t kBytes = 1 << 20;
  Tensor w = ones({kBytes / 4}).set_requires_grad();
  auto loss = [&] { return exp(tanh(w * w)).mean(); };
  loss().eval();
  synchronize();
  int64_t before = allocator_->live_bytes;
  std::vector<Tensor> kept;
  for (int i = 0; i < 4; ++i) {
    kept.push_back(loss().detach());
    kept.back().eval();
    Tensor trained = loss();
    kept.push_back(trained.detach());
    trained.eval();
    {
      NoGrad no_grad;
      kept.push_back(trained.reshape({1}));
    }
    // In use until here.
    EXPECT_FALSE(kept.back().requires_grad());
    trained = loss();
    kept.push_back(trained.detach());
    trained.backward();
    kept.back().eval();
    w.zero_grad();
  }
  synchronize();
  EXPECT_LT(allocator_->live_bytes - before, kBytes);
  for (const Tensor &each : kept)
    EXPECT_EQ(each.to_vector<float>(), kept[0].to_vector<float>());
}

// A loop over one tensor runs in its memory: each step donates the last one's result.
TEST_F(Memory, ALoopOverATensorTakesNoMore) {
  constexpr int64_t kBytes = 4 << 20;
  Tensor x = zeros({kBytes / 4});
  auto step = [&] {
    x = x * 0.5 + 1.0;
    x.eval();
    synchronize();
  };
  step();
  int64_t live = allocator_->live_bytes;
  allocator_->peak_bytes = live;
  for (int i = 0; i < 5; ++i)
    step();
  EXPECT_EQ(allocator_->live_bytes, live);
  int64_t more = allocator_->peak_bytes - live;
  if (config().backend == "cpu")
    EXPECT_LT(more, kBytes / 2);
  else
    EXPECT_GE(more, kBytes) << "interpretation writes results of their own";
  EXPECT_EQ(x.to_vector<float>()[7], 2 - 0x1p-5f);
}

TEST_F(Memory, AFailureNamesWhatItIsAndARetryWorks) {
  Tensor x = tensor({1.f, 2.f, 3.f});
  Tensor w = tensor({2.f, 2.f, 2.f}).set_requires_grad();
  Tensor loss = sum(w * x * 0.5);
  w.grad();
  loss.backward();
  Tensor updated = w.detach() - w.grad() * 0.1;
  // Each allocation of the evaluation fails in turn, until there is none left to fail.
  int failures = 0;
  for (int64_t n = 0;; ++n) {
    ASSERT_LT(n, 100);
    allocator_->fail_after(n);
    try {
      updated.eval();
      break;
    } catch (const Error &error) {
      EXPECT_EQ(error.kind(), ErrorKind::kMemory) << error.what();
      EXPECT_NE(error.message().find("what was recorded is computed when it is asked for again"),
                std::string::npos)
          << error.what();
      ++failures;
    }
  }
  EXPECT_GE(failures, 1);
  allocator_->fail_after(INT64_MAX);
  EXPECT_EQ(updated.to_vector<float>(), (std::vector<float>{2.f - 0.05f, 2.f - 0.1f, 2.f - 0.15f}));
  EXPECT_EQ(loss.item<float>(), 6.f);
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{2, 2, 2}));
}

// An optimizer's step that fails anywhere has not been made: it may be made again.
TEST_F(Memory, AStepIsMadeAsAWholeOrNotAtAll) {
  auto train = [&](int64_t failing) {
    allocator_->fail_after(INT64_MAX);
    Tensor w = tensor({1.f, 2.f, 3.f}).set_requires_grad();
    Tensor b = tensor({0.5f}).set_requires_grad(), x = tensor({2.f, 3.f, 4.f});
    optim::AdamW optimizer({w, b}, {.lr = 0.1});
    eval({w, b, x});
    bool failed = false;
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      ((w * x + b).square().sum()).backward();
      if (step == 1)
        allocator_->fail_after(failing);
      try {
        optimizer.step();
      } catch (const Error &error) {
        failed = true;
        allocator_->fail_after(INT64_MAX);
        optimizer.step();
      }
      allocator_->fail_after(INT64_MAX);
    }
    std::vector<float> values = w.to_vector<float>();
    values.push_back(b.item<float>());
    return std::pair(values, failed);
  };
  std::vector<float> expected = train(INT64_MAX).first;
  int failures = 0;
  for (int64_t n = 0; n < 100; ++n) {
    auto [values, failed] = train(n);
    EXPECT_EQ(values, expected) << n;
    failures += failed;
    if (!failed)
      break;
  }
  EXPECT_GE(failures, 1);
}

// A loss scaler's first: its gradients are divided once, its scale moves once.
TEST_F(Memory, AScaledStepIsMadeAsAWholeOrNotAtAll) {
  auto train = [&](bool clips, int64_t failing) {
    manual_seed(1);
    nn::Linear linear(4, 3);
    optim::SGD optimizer(linear.parameters(), {.lr = 0.1, .momentum = 0.9});
    optim::LossScaler scaler({.init_scale = 1024, .growth_interval = 2});
    Tensor x = randn({6, 4});
    x.eval();
    bool failed = false;
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      scaler.scale(linear(x).square().mean()).backward();
      if (clips)
        scaler.unscale_(optimizer);
      if (step == 1) { // written before the step, and pending: not the step's to take back
        NoGrad no_grad;
        scaler.state()[0].second.mul_(0.5);
      }
      if (step < 2)
        allocator_->fail_after(failing);
      try {
        scaler.step(optimizer);
        allocator_->fail_after(INT64_MAX);
      } catch (const Error &) {
        failed = true;
        allocator_->fail_after(INT64_MAX);
        scaler.step(optimizer);
      }
    }
    std::vector<float> values = linear.weight.to_vector<float>();
    values.push_back(static_cast<float>(scaler.scale()));
    return std::pair(values, failed);
  };
  for (bool clips : {false, true}) {
    std::vector<float> expected = train(clips, INT64_MAX).first;
    bool failed = true;
    for (int64_t n = 0; n < 100 && failed; ++n) {
      std::vector<float> values;
      std::tie(values, failed) = train(clips, n);
      EXPECT_EQ(values, expected) << clips << " " << n;
      EXPECT_TRUE(failed || n > 0) << clips;
    }
    EXPECT_FALSE(failed);
  }
}

// What the calls before the step have written is not the step's to take back, and the error does
// not say so.
TEST_F(Memory, AStepThatFailsLeavesTheStatistics) {
  nn::BatchNorm2d norm(2);
  optim::SGD optimizer(norm.parameters(), {.lr = 0.1});
  Tensor x = ones({3, 2, 2, 2});
  x.eval();
  std::string message;
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    (norm(x) * x).sum().backward();
    allocator_->fail_after(step == 0 ? INT64_MAX : 0);
    message = testing_support::message_of([&] { optimizer.step(); });
    allocator_->fail_after(INT64_MAX);
    EXPECT_EQ(norm.bias.to_vector<float>(), std::vector<float>(2, -0.1f * 12)) << step;
  }
  EXPECT_NE(message.find("; the step is taken back"), std::string::npos) << message;
  EXPECT_NE(message.find("running statistics"), std::string::npos) << message;
  EXPECT_EQ(message.find("every tensor keeps its value"), std::string::npos) << message;
  EXPECT_EQ(norm.running_mean.to_vector<float>(), std::vector<float>(2, 0.1f + 0.9f * 0.1f));
}

// So are writes of the parameters before the step, which may be yet to be computed.
TEST_F(Memory, AStepThatFailsLeavesWhatWasWrittenBefore) {
  auto train = [&](bool fails) {
    Tensor w = tensor({1.f, -2.f, 3.f}).set_requires_grad(), x = tensor({2.f, 3.f, 4.f});
    optim::SGD optimizer({w}, {.lr = 0.1, .momentum = 0.9});
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      (w * x).square().sum().backward();
      {
        NoGrad no_grad;
        w.clamp_(-0.5, 0.5);
        Tensor momentum = optimizer.state().back().second;
        momentum.mul_(0.5);
      }
      allocator_->fail_after(fails && step > 0 ? 0 : INT64_MAX);
      bool failed = failed_first([&] { optimizer.step(); });
      EXPECT_EQ(failed, fails && step > 0);
    }
    return w.to_vector<float>();
  };
  EXPECT_EQ(train(true), train(false));
}

TEST_F(Memory, AverageAndParameterAreMovedAsAWhole) {
  auto values = [&](int64_t failing) {
    Tensor w = tensor({1.f, 2.f, 3.f}).set_requires_grad();
    optim::ExponentialMovingAverage average({w}, 0.5);
    {
      NoGrad no_grad;
      w.mul_(4);
    }
    allocator_->fail_after(failing);
    bool failed = failed_first([&] { average.update(); });
    allocator_->fail_after(failing);
    failed = failed_first([&] { average.swap(); }) || failed;
    std::vector<float> all = w.to_vector<float>(), of = average.averages()[0].to_vector<float>();
    all.insert(all.end(), of.begin(), of.end());
    return std::pair(all, failed);
  };
  std::vector<float> expected{2.5, 5, 7.5, 4, 8, 12};
  EXPECT_EQ(values(INT64_MAX), std::pair(expected, false));
  EXPECT_EQ(values(0), std::pair(expected, true));
  for (int64_t n = 1; n < 8; ++n)
    EXPECT_EQ(values(n).first, expected) << n;
}

// The average that a parameter changes places with is the only one to hold what was to be computed.
TEST_F(Memory, ASwapThatFailsChangesNothing) {
  auto values = [&](int64_t failing) {
    Tensor v = tensor({5.f, 6.f}).set_requires_grad(),
           w = tensor({1.f, 2.f, 3.f}).set_requires_grad();
    optim::ExponentialMovingAverage average({v, w}, 0.5);
    Tensor shared = w.detach().clone(); // so that the write of w takes memory
    {
      NoGrad no_grad;
      v.mul_(2);
      v.eval();
      w.mul_(4);
    }
    allocator_->fail_after(failing);
    bool failed = failed_first([&] { average.swap(); });
    std::vector<float> all;
    for (const Tensor &each : {v, w, average.averages()[0], average.averages()[1]})
      for (float value : each.to_vector<float>())
        all.push_back(value);
    return std::pair(all, failed);
  };
  std::vector<float> expected{5, 6, 1, 2, 3, 10, 12, 4, 8, 12};
  EXPECT_EQ(values(INT64_MAX), std::pair(expected, false));
  EXPECT_EQ(values(0), std::pair(expected, true));
}

TEST_F(Memory, ASwapWithWhatCannotBeWrittenChangesNothing) {
  float lent[] = {7, 8};
  Tensor v = tensor({5.f, 6.f}).set_requires_grad(), w = from_blob(lent, {2}).set_requires_grad();
  optim::ExponentialMovingAverage average({v, w}, 0.5);
  {
    NoGrad no_grad;
    v.mul_(2);
  }
  EXPECT_THROW(average.swap(), Error);
  EXPECT_EQ(v.to_vector<float>(), (std::vector<float>{10, 12}));
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{7, 8}));
  EXPECT_EQ(average.averages()[0].to_vector<float>(), (std::vector<float>{5, 6}));
  EXPECT_EQ(average.averages()[1].to_vector<float>(), (std::vector<float>{7, 8}));
}

// Large results of one value are written when the program runs: it does not hold their bytes.
TEST_F(Memory, ProgramsDoNotHoldZeros) {
  constexpr int64_t kSize = 3 << 20;
  uint64_t before = statistics().cache_bytes;
  Tensor a = zeros({kSize}), b = zeros({kSize}), c = full({kSize / 4}, 2.5, float64);
  eval({a, b, c});
  EXPECT_LT(statistics().cache_bytes - before, uint64_t(kSize));
  a[1] = 1.0;
  EXPECT_EQ(a.sum().item<float>(), 1.f);
  EXPECT_EQ(b.abs().max().item<float>(), 0.f);
  EXPECT_EQ(c.min().item<double>() + c.max().item<double>(), 5.0);
}

// What programs leave to the next ones is given back where a tensor's first value needs it.
TEST_F(Memory, IsGivenBackForFirstValues) {
  constexpr int64_t kSide = 512, kMatrix = kSide * kSide * 4;
  set_allocator(std::make_shared<runtime::LimitAllocator>(
      std::make_shared<runtime::SystemAllocator>(), 9 * kMatrix / 2));
  Tensor x = zeros({kSide, kSide}).eval();
  EXPECT_EQ(matmul(matmul(x, x).exp(), x).exp().sum().item<float>(), float(kSide * kSide));
  synchronize();
  // Beside x, and what the products were computed in.
  std::vector<nn::Linear> layers;
  for (int i = 0; i < 3; ++i) {
    layers.emplace_back(kSide, kSide);
    for (const Tensor &parameter : layers.back().parameters())
      EXPECT_NO_THROW((void)parameter.data<float>()) << i;
  }
}

TEST_F(Memory, NoneForATensorOfValues) {
  allocator_->fail_after(0);
  try {
    Tensor::from<float>(std::vector<float>(10));
    FAIL() << "made a tensor without memory";
  } catch (const Error &error) {
    EXPECT_EQ(error.kind(), ErrorKind::kMemory);
  }
  allocator_->fail_after(INT64_MAX);
  EXPECT_EQ((tensor({1.f}) + 1).item<float>(), 2.f);
}

} // namespace
} // namespace weft
