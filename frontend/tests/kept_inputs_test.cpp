// Recorded ops keep what they read. Inputs that nobody else keeps have a budget of their own, and
// are computed with where memory runs out.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <set>

#include "runtime/memory/limit_allocator.h"
#include "runtime/memory/system_allocator.h"
#include "tests/support/errors.h"

namespace weft {
namespace {

constexpr int64_t kBudget = 1 << 20, kBatch = 64 << 10;

uint64_t compiles() {
  return statistics().compiles + statistics().disk_hits;
}
uint64_t cuts(CutReason reason) {
  return statistics().cuts[static_cast<int>(reason)];
}

class KeptInputs : public testing::Test {
protected:
  void SetUp() override {
    before_ = config();
    set_allocator(allocator_);
  }
  void TearDown() override {
    set_allocator(nullptr);
    set_config(before_);
  }
  void set_budget() {
    Config options = before_;
    options.budget_bytes = kBudget;
    set_config(options);
  }
  static void limit(int64_t bytes) {
    set_allocator(std::make_shared<runtime::LimitAllocator>(
        std::make_shared<runtime::SystemAllocator>(), bytes));
  }
  // Of ones.
  static Tensor batch(int64_t bytes = kBatch, int64_t rows = 1) {
    return Tensor::from(std::vector<float>(static_cast<size_t>(bytes) / 4, 1.f),
                        {rows, bytes / 4 / rows});
  }

  Config before_;
  std::shared_ptr<runtime::Allocator> allocator_ = std::make_shared<runtime::SystemAllocator>();
};

// 200 batches are 12.5 MiB.
TEST_F(KeptInputs, OfAnEvaluationAreFewBatches) {
  set_budget();
  NoGrad no_grad;
  Tensor w = tensor({0.f, 1.f, 2.f, 3.f}), correct = zeros({}, int64);
  uint64_t before = compiles(), cut = cuts(CutReason::kBytes);
  for (int i = 0; i < 200; ++i) {
    Tensor x = batch();
    correct += eq(x.narrow(1, 0, 4) * w, w).sum();
  }
  EXPECT_GE(cuts(CutReason::kBytes) - cut, 8u);
  EXPECT_EQ(correct.item<int64_t>(), 800);
  EXPECT_LE(allocator_->stats().peak_bytes, 6 * kBudget);
  // Whole iterations, and at the end what is left.
  EXPECT_LE(compiles() - before, 4u);
}

TEST_F(KeptInputs, BehindTrainingStepsAreFewBatches) {
  set_budget();
  Tensor w = tensor({1.f, 2.f, 3.f, 4.f}).set_requires_grad(), seen = zeros({}, int64);
  optim::SGD optimizer({w}, {.lr = 0.001});
  uint64_t before = compiles(), cut = cuts(CutReason::kBytes), steps = cuts(CutReason::kStep),
           evaluations = statistics().evaluations;
  for (int i = 0; i < 200; ++i) {
    Tensor x = batch();
    optimizer.zero_grad();
    (x.narrow(1, 0, 4) * w).square().sum().backward();
    optimizer.step();
    NoGrad no_grad;
    seen = seen + eq(x.narrow(1, 4, 4), 1).sum();
  }
  EXPECT_GE(cuts(CutReason::kBytes) - cut, 8u);
  EXPECT_EQ(seen.item<int64_t>(), 800);
  EXPECT_LE(allocator_->stats().peak_bytes, 6 * kBudget);
  // The cuts stand between the steps: each is one program still, and the same one.
  EXPECT_EQ(cuts(CutReason::kStep) - steps, 200u);
  EXPECT_LE(compiles() - before, 6u);
  std::set<int64_t> ops;
  for (const Evaluation &each : recent_evaluations())
    if (each.reason == CutReason::kStep && each.number > evaluations)
      ops.insert(each.ops);
  EXPECT_EQ(ops.size(), 1u) << testing::PrintToString(ops);
}

// A step writes a parameter that is still to be read elsewhere, so that the old value stays.
TEST_F(KeptInputs, OfParametersAreFewOldValues) {
  set_budget();
  Tensor w = zeros({kBatch / 4}).set_requires_grad(), sum = zeros({});
  optim::SGD optimizer({w}, {.lr = 0.5});
  for (int i = 0; i < 200; ++i) {
    optimizer.zero_grad();
    w.sum().backward();
    optimizer.step();
    NoGrad no_grad;
    sum = sum + w.narrow(0, 0, 1).sum();
  }
  EXPECT_EQ(sum.item<float>(), -0.5f * 20100);
  EXPECT_LE(allocator_->stats().peak_bytes, 6 * kBudget);
}

// What a forward pass has kept for the way back is left to recorded ops when backward() ends.
TEST_F(KeptInputs, OfAStepThatIsUnderWayStay) {
  set_budget();
  constexpr int64_t kRows = 12, kBytes = 3 * kBudget / 4, kInner = kBytes / 4 / kRows;
  Tensor v = zeros({kInner, 1}).set_requires_grad(), w = zeros({kInner, 1}).set_requires_grad();
  optim::SGD optimizer({v, w}, {.lr = 1e-7});
  uint64_t cut = cuts(CutReason::kBytes), steps = cuts(CutReason::kStep);
  for (int i = 0; i < 4; ++i) {
    optimizer.zero_grad();
    Tensor loss;
    {
      Tensor a = batch(kBytes, kRows), b = batch(kBytes, kRows);
      loss = (matmul(a, v) + matmul(b, w) - 1).square().sum();
    }
    loss.backward();
    optimizer.step();
  }
  EXPECT_EQ(cuts(CutReason::kBytes) - cut, 0u);
  EXPECT_EQ(cuts(CutReason::kStep) - steps, 4u);
  EXPECT_GT(w.min().item<float>(), 0.f);
}

// 100 batches are 6 MiB.
TEST_F(KeptInputs, MakeRoomForANewTensor) {
  limit(2 * kBudget + (48 << 10)); // room for what the sums take, but not for a batch more
  NoGrad no_grad;
  Tensor total = zeros({});
  for (int i = 0; i < 100; ++i) {
    Tensor x = batch();
    total += x.narrow(1, 0, 4).sum();
  }
  EXPECT_EQ(total.item<float>(), 400.f);
}

TEST_F(KeptInputs, MakeRoomForARun) {
  limit(4 * kBudget);
  NoGrad no_grad;
  Tensor total = zeros({});
  for (int i = 0; i < 32; ++i) {
    Tensor x = batch();
    total += x.narrow(1, 0, 4).sum();
  }
  Tensor y = (tensor({1.f, 2.f}).reshape({1, 2}).expand({3 * kBudget / 8, 2}) + 1).eval();
  EXPECT_EQ(y[7].to_vector<float>(), (std::vector<float>{2, 3}));
  EXPECT_EQ(total.item<float>(), 128.f);
}

// Where computing them takes memory that is not there either.
TEST_F(KeptInputs, AreNamedWhereThereIsNoRoom) {
  limit(5 * kBudget / 2);
  Tensor x = batch(kBudget), y = cat({x, x}, 0);
  x = Tensor();
  std::string message = testing_support::message_of([] { batch(2 * kBudget); });
  EXPECT_NE(message.find("no memory for a tensor"), std::string::npos) << message;
  EXPECT_NE(message.find("recorded ops keep 1.00 MiB of tensors that nobody else holds: eval() "
                         "what they compute"),
            std::string::npos)
      << message;
  set_allocator(nullptr);
  EXPECT_EQ(y.sum().item<float>(), static_cast<float>(kBudget / 2));
}

} // namespace
} // namespace weft
