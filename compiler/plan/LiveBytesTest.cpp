#include "compiler/plan/LiveBytes.h"

#include <random>

#include "compiler/plan/LendOutputs.h"
#include "compiler/plan/Lifetimes.h"
#include "compiler/plan/Limits.h"
#include "compiler/plan/Order.h"
#include "gtest/gtest.h"

namespace weft::compiler {
namespace {

using Kind = PlanProblem::Kind;

int32_t add(PlanProblem &problem, int64_t bytes, Kind kind) {
  problem.values.push_back({bytes, kind, kind == Kind::Output});
  return int32_t(problem.values.size() - 1);
}

int64_t outputBytes(const PlanProblem &problem) {
  int64_t bytes = 0;
  for (const PlanProblem::Value &value : problem.values)
    bytes += value.kind == Kind::Output ? value.bytes : 0;
  return bytes;
}

TEST(LiveBytes, FollowValuesScratchAndOutputs) {
  PlanProblem problem;
  int32_t x = add(problem, 4096, Kind::Input), y = add(problem, 200, Kind::Output);
  int32_t a = add(problem, 100, Kind::Arena), b = add(problem, 256, Kind::Arena);
  int32_t scratch = add(problem, 64, Kind::Arena), c = add(problem, 1, Kind::Arena);
  problem.steps = {{{x}, {y, a}, {}}, {{a}, {b, scratch}, {}}, {{b}, {c}, {}}, {{c}, {}, {}}};
  StepOrder order = programOrder(problem);
  std::vector<Lifetime> lives = lifetimes(problem, order);
  Packing packing = pack(lives);
  // In the arena values begin at multiples of 64. The output is live from its step on.
  EXPECT_EQ(liveBytes(problem, order, lives, packing),
            (std::vector<int64_t>{200 + 128, 200 + 128 + 256 + 64, 200 + 256 + 64, 200 + 64}));
  EXPECT_EQ(packing.arenaBytes + outputBytes(problem), 648); // the most: the planned peak
}

TEST(LiveBytes, OfWhatOutputsLendRoomToCount) {
  PlanProblem problem;
  int32_t x = add(problem, 64, Kind::Input), kept = add(problem, 4090, Kind::Arena);
  int32_t a = add(problem, 64, Kind::Arena), gradient = add(problem, 4090, Kind::Output);
  problem.steps = {{{x}, {kept}, {}}, {{kept}, {a}, {}}, {{a}, {gradient}, {}}};
  StepOrder order = programOrder(problem);
  std::vector<Lifetime> lives = lifetimes(problem, order);
  Packing packing = packWithOutputs(problem, order, lives, {.leastLoan = 1024, .leastArena = 0});
  ASSERT_EQ(packing.arenaBytes, 64);
  EXPECT_EQ(liveBytes(problem, order, lives, packing),
            (std::vector<int64_t>{4090, 4154, 4154})); // 64 + 4090: the planned peak
}

TEST(LiveBytes, OfNoStepsAreNone) {
  PlanProblem problem;
  add(problem, 64, Kind::Output);
  EXPECT_TRUE(liveBytes(problem, programOrder(problem), {}, Packing()).empty());
}

// Against a sum at each step; the most is what values need, and no more than what is planned.
TEST(LiveBytes, AreNeverMoreThanWhatIsPlanned) {
  std::mt19937 random(20261126);
  int64_t loans = 0;
  for (int round = 0; round < 100; ++round) {
    PlanProblem problem;
    auto below = [&](int n) {
      return int(random() % unsigned(n));
    };
    add(problem, 64, Kind::Input);
    for (int s = 0, steps = 1 + below(100); s < steps; ++s) {
      int32_t read = std::max(0, int32_t(problem.values.size()) - 1 - below(12));
      int32_t written = add(problem, below(3000), below(4) ? Kind::Arena : Kind::Output);
      problem.steps.push_back({{read}, {written}, {}});
    }
    StepOrder order = programOrder(problem);
    std::vector<Lifetime> lives = lifetimes(problem, order);
    for (const Packing &packing :
         {pack(lives),
          packWithOutputs(problem, order, lives, {.leastLoan = 1, .leastArena = 0})}) {
      std::vector<int64_t> live = liveBytes(problem, order, lives, packing);
      ASSERT_EQ(live.size(), problem.steps.size());
      for (size_t step = 0; step < live.size(); ++step) {
        int64_t sum = 0;
        for (const Lifetime &output : outputLifetimes(problem, order))
          sum += output.begin <= int(step) ? problem.values[output.value].bytes : 0;
        for (size_t i = 0; i < lives.size(); ++i) {
          bool lent = !packing.lenders.empty() && packing.lenders[i] >= 0;
          loans += lent;
          if (lives[i].begin <= int(step) && int(step) <= lives[i].end)
            sum += lent ? problem.values[lives[i].value].bytes : lives[i].bytes;
        }
        ASSERT_EQ(live[step], sum) << "round " << round << ", step " << step;
        ASSERT_LE(sum, packing.arenaBytes + outputBytes(problem));
      }
    }
  }
  EXPECT_GT(loans, 100);
}

// A chain, of which one value in the middle is large.
TEST(LiveBytes, OfManyStepsTheLargestStay) {
  constexpr int kSteps = 10'000;
  PlanProblem problem;
  int32_t before = add(problem, 64, Kind::Input);
  for (int s = 0; s < kSteps; ++s) {
    int32_t written = add(problem, s == kSteps / 2 ? 1 << 20 : 64, Kind::Arena);
    problem.steps.push_back({{before}, {written}, {}});
    before = written;
  }
  StepOrder order = programOrder(problem);
  std::vector<Lifetime> lives = lifetimes(problem, order);
  Packing packing = pack(lives);
  std::vector<int64_t> live = liveBytes(problem, order, lives, packing);
  ASSERT_EQ(live.size(), kLivePoints);
  EXPECT_EQ(live.front(), 128); // two values, but at the first step
  EXPECT_EQ(live[kLivePoints / 2], (1 << 20) + 64);
  EXPECT_EQ(live[kLivePoints / 2], packing.arenaBytes);
  EXPECT_EQ(live.back(), 128);
}

} // namespace
} // namespace weft::compiler
