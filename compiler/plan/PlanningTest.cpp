// Order, aliasing and packing on random programs, against brute force.
#include <random>

#include "compiler/plan/InPlace.h"
#include "compiler/plan/LendOutputs.h"
#include "compiler/plan/Lifetimes.h"
#include "compiler/plan/Order.h"
#include "compiler/plan/Packing.h"
#include "compiler/plan/Recompute.h"
#include "runtime/core/alignment.h"
#include "gtest/gtest.h"

namespace weft::compiler {
namespace {

using Kind = PlanProblem::Kind;

// A program of `steps` steps that reads recent values with preference, some of them long
// afterwards.
PlanProblem randomProblem(std::mt19937 &random, int steps) {
  auto below = [&](int n) {
    return int(random() % n);
  };
  PlanProblem problem;
  auto add = [&](int64_t bytes, Kind kind) {
    problem.values.push_back({bytes, kind, kind == Kind::Output});
    return int32_t(problem.values.size() - 1);
  };
  std::vector<int32_t> readable;
  for (int i = 0; i < 4; ++i)
    readable.push_back(add(64 << below(6), below(2) ? Kind::Donated : Kind::Input));
  for (int s = 0; s < steps; ++s) {
    PlanProblem::Step step;
    for (int r = 0, n = below(4); r < n; ++r) {
      int back = below(8) ? below(std::min<int>(readable.size(), 6)) : below(int(readable.size()));
      step.reads.push_back(readable[readable.size() - 1 - back]);
    }
    for (int w = 0, n = 1 + below(3) / 2; w < n; ++w) {
      int64_t bytes = below(10) == 0 ? 0 : below(3) ? int64_t(64) << below(6) : 1 + below(5000);
      step.writes.push_back(add(bytes, below(12) ? Kind::Arena : Kind::Output));
    }
    for (int w = 0; w < int(step.writes.size()); ++w)
      for (int r = 0; r < int(step.reads.size()); ++r)
        if (below(2))
          step.inPlace.emplace_back(w, r);
    readable.insert(readable.end(), step.writes.begin(), step.writes.end());
    problem.steps.push_back(std::move(step));
  }
  return problem;
}

// Whether the order holds each step once, after the steps that write what it reads.
::testing::AssertionResult isLegal(const PlanProblem &problem, const StepOrder &order) {
  if (order.steps.size() != problem.steps.size())
    return ::testing::AssertionFailure() << order.name << " loses steps";
  std::vector<int> at(problem.steps.size(), -1);
  for (size_t p = 0; p < order.steps.size(); ++p) {
    if (at[order.steps[p]] >= 0)
      return ::testing::AssertionFailure() << order.name << " repeats a step";
    at[order.steps[p]] = int(p);
  }
  std::vector<int> written(problem.values.size(), -1);
  for (size_t s = 0; s < problem.steps.size(); ++s)
    for (int32_t v : problem.steps[s].writes)
      written[v] = at[s];
  for (size_t s = 0; s < problem.steps.size(); ++s)
    for (int32_t v : problem.steps[s].reads)
      if (written[v] >= at[s])
        return ::testing::AssertionFailure() << order.name << " reads before it writes";
  return ::testing::AssertionSuccess();
}

// Runs the steps on real memory: every write stamps its bytes, every read must find the stamp of
// the value that it means.
::testing::AssertionResult runs(const PlanProblem &problem, const StepOrder &order,
                                const InPlaceResult &inPlace, const std::vector<Lifetime> &lives,
                                const Packing &packing) {
  std::vector<int64_t> offset(problem.values.size(), -1);
  std::vector<int32_t> lender(problem.values.size(), -1);
  for (size_t i = 0; i < lives.size(); ++i) {
    if (packing.offsets[i] % runtime::kBufferAlignment)
      return ::testing::AssertionFailure() << "an offset is not aligned";
    offset[lives[i].value] = packing.offsets[i];
    if (packing.lenders.empty() || packing.lenders[i] < 0)
      continue;
    const PlanProblem::Value &from = problem.values[packing.lenders[i]];
    lender[lives[i].value] = packing.lenders[i];
    if (from.kind != Kind::Output ||
        packing.offsets[i] + problem.values[lives[i].value].bytes > from.bytes)
      return ::testing::AssertionFailure() << "a value does not fit where it lies";
  }
  // Each buffer beside the arena is an array of its own.
  std::vector<int32_t> arena(packing.arenaBytes, -1);
  std::vector<std::vector<int32_t>> own(problem.values.size());
  for (size_t v = 0; v < problem.values.size(); ++v)
    if (problem.values[v].kind != Kind::Arena)
      own[v].assign(problem.values[v].bytes,
                    problem.values[v].kind == Kind::Output ? -1 : int32_t(v));
  auto memory = [&](int32_t v) {
    int32_t root = inPlace.root[v];
    if (lender[root] >= 0)
      return own[lender[root]].data() + offset[root];
    return offset[root] >= 0 ? arena.data() + offset[root] : own[root].data();
  };
  auto holds = [&](int32_t v) {
    const int32_t *data = memory(v);
    for (int64_t b = 0; b < problem.values[v].bytes; ++b)
      if (data[b] != v)
        return false;
    return true;
  };
  for (int32_t s : order.steps) {
    const PlanProblem::Step &step = problem.steps[s];
    for (int32_t v : step.reads)
      if (!holds(v))
        return ::testing::AssertionFailure()
               << "step " << s << " finds value " << v << " overwritten";
    for (int32_t w : step.writes) {
      // Beside the pairs that the step allows, what it writes must not overlap what it reads.
      for (size_t r = 0; r < step.reads.size(); ++r) {
        const int32_t *a = memory(w), *b = memory(step.reads[r]);
        bool overlap = problem.values[w].bytes && problem.values[step.reads[r]].bytes &&
                       a < b + problem.values[step.reads[r]].bytes &&
                       b < a + problem.values[w].bytes;
        bool allowed = a == b && llvm::any_of(step.inPlace, [&](auto pair) {
                         return step.writes[pair.first] == w && pair.second == int(r);
                       });
        if (overlap && !allowed)
          return ::testing::AssertionFailure() << "step " << s << " overwrites what it reads";
      }
      std::fill_n(memory(w), problem.values[w].bytes, w);
    }
    for (int32_t w : step.writes)
      if (!holds(w))
        return ::testing::AssertionFailure() << "two results of step " << s << " overlap";
  }
  for (size_t v = 0; v < problem.values.size(); ++v) {
    if (problem.values[v].returned && !holds(int32_t(v)))
      return ::testing::AssertionFailure() << "output " << v << " was overwritten";
    if (problem.values[v].kind == Kind::Input && !holds(int32_t(v)))
      return ::testing::AssertionFailure() << "input " << v << " was written";
  }
  return ::testing::AssertionSuccess();
}

int64_t bruteForceBound(const std::vector<Lifetime> &lives, size_t steps) {
  int64_t bound = 0;
  for (size_t p = 0; p < steps; ++p) {
    int64_t live = 0;
    for (const Lifetime &life : lives)
      if (life.begin <= int(p) && int(p) <= life.end)
        live += life.bytes;
    bound = std::max(bound, live);
  }
  return bound;
}

TEST(Planning, RandomProgramsKeepEveryValueWhileItIsNeeded) {
  std::mt19937 random(20260721);
  int64_t loans = 0;
  for (int round = 0; round < 150; ++round) {
    PlanProblem problem = randomProblem(random, 1 + int(random() % 60));
    for (const StepOrder &order :
         {programOrder(problem), depthFirstOrder(problem), greedyOrder(problem)}) {
      ASSERT_TRUE(isLegal(problem, order)) << "round " << round;
      InPlaceResult inPlace = assignInPlace(problem, order);
      PlanProblem merged = applyInPlace(problem, inPlace);
      std::vector<Lifetime> lives = lifetimes(merged, order);
      int64_t bound = liveBound(lives);
      ASSERT_EQ(bound, bruteForceBound(lives, order.steps.size()));
      std::vector<int32_t> sequence(lives.size());
      for (size_t i = 0; i < sequence.size(); ++i)
        sequence[i] = int32_t(i);
      std::shuffle(sequence.begin(), sequence.end(), random);
      for (const Packing &packing :
           {pack(lives), packInOrder(lives), packBestFit("random", lives, sequence)}) {
        ASSERT_TRUE(runs(problem, order, inPlace, lives, packing))
            << "round " << round << ", " << order.name << ", " << packing.name;
        ASSERT_GE(packing.arenaBytes, bound);
      }
      ASSERT_LE(pack(lives).arenaBytes, packInOrder(lives).arenaBytes);
      // The size of some outputs varies.
      for (size_t v = 0; v < merged.values.size(); v += 4)
        merged.values[v].extent = merged.values[v].kind == Kind::Output ? 1 : 0;
      Packing lent = packWithOutputs(merged, order, lives, {.leastLoan = 1, .leastArena = 0});
      ASSERT_TRUE(runs(problem, order, inPlace, lives, lent)) << "round " << round << ", lent";
      ASSERT_GE(lent.arenaBytes, lent.bound);
      for (int32_t lender : lent.lenders) {
        loans += lender >= 0;
        ASSERT_TRUE(lender < 0 || merged.values[lender].extent == 0);
      }
    }
  }
  EXPECT_GT(loans, 100);
}

// Gradients are written as what the forward pass kept dies: until then it lies in their buffers.
TEST(Planning, OutputsLendTheirBuffersUntilTheyAreWritten) {
  constexpr int64_t kBytes = 1 << 20;
  constexpr int kLayers = 4;
  PlanProblem problem;
  auto add = [&](int64_t bytes, Kind kind) {
    problem.values.push_back({bytes, kind, kind == Kind::Output});
    return int32_t(problem.values.size() - 1);
  };
  std::vector<int32_t> kept = {add(kBytes, Kind::Input)};
  for (int layer = 0; layer < kLayers; ++layer) {
    kept.push_back(add(kBytes, Kind::Arena));
    problem.steps.push_back({{kept[layer]}, {kept[layer + 1]}, {}});
  }
  for (int layer = kLayers; layer-- > 0;)
    problem.steps.push_back({{kept[layer], kept[layer + 1]}, {add(kBytes, Kind::Output)}, {}});
  StepOrder order = programOrder(problem);
  std::vector<Lifetime> lives = lifetimes(problem, order);
  ASSERT_EQ(lives.size(), size_t(kLayers));
  EXPECT_EQ(pack(lives).arenaBytes, kLayers * kBytes);
  // The first layer's values are read by the step that writes the last gradient; all others lie in
  // gradients that are written after their end.
  Packing packing = packWithOutputs(problem, order, lives);
  EXPECT_EQ(packing.arenaBytes, kBytes);
  EXPECT_EQ(packing.bound, kBytes);
  // A caller's buffer of a size that varies may be smaller than planned.
  for (PlanProblem::Value &value : problem.values)
    value.extent = value.kind == Kind::Output ? 1 : 0;
  EXPECT_EQ(packWithOutputs(problem, order, lives).arenaBytes, kLayers * kBytes);
}

std::vector<PlanAction> asActions(llvm::ArrayRef<int32_t> steps) {
  std::vector<PlanAction> actions;
  for (int32_t s : steps)
    actions.push_back({PlanAction::Kind::Step, s});
  return actions;
}

int64_t count(const Recomputation &found, PlanAction::Kind kind) {
  return llvm::count_if(found.actions, [&](PlanAction action) { return action.kind == kind; });
}

// The steps as they run: each reads the value that it means, whichever of its writers wrote it
// last. What is loaded is what was stored with that token.
::testing::AssertionResult means(const PlanProblem &problem, const RepeatedProblem &repeated) {
  for (const PlanProblem::Step &step : problem.steps) {
    bool ran = llvm::any_of(repeated.problem.steps, [&](const PlanProblem::Step &run) {
      return run.writes == step.writes;
    });
    if (!ran)
      return ::testing::AssertionFailure() << "a step is lost";
  }
  std::vector<bool> written(repeated.problem.values.size());
  for (size_t v = 0; v < problem.values.size(); ++v)
    written[v] = problem.values[v].kind == Kind::Input || problem.values[v].kind == Kind::Donated;
  for (const PlanProblem::Step &step : repeated.problem.steps) {
    for (int32_t v : step.reads)
      if (!written[v])
        return ::testing::AssertionFailure() << "value " << v << " is read before it is written";
    for (int32_t v : step.writes) {
      if (written[v])
        return ::testing::AssertionFailure() << "value " << v << " is written twice";
      written[v] = true;
    }
  }
  // By values, each run is a step of the problem.
  std::vector<int32_t> stored(repeated.problem.values.size(), -1); // by token
  for (const PlanProblem::Step &run : repeated.problem.steps) {
    if (repeated.values[run.writes[0]] < 0) {
      stored[run.writes[0]] = repeated.values[run.reads[0]];
      continue;
    }
    if (!run.reads.empty() && repeated.values[run.reads[0]] < 0) {
      if (stored[run.reads[0]] != repeated.values[run.writes[0]])
        return ::testing::AssertionFailure() << "another value is loaded than was stored";
      continue;
    }
    auto original = [&](llvm::ArrayRef<int32_t> values) {
      llvm::SmallVector<int32_t, 4> result;
      for (int32_t v : values)
        result.push_back(repeated.values[v]);
      return result;
    };
    if (llvm::none_of(problem.steps, [&](const PlanProblem::Step &step) {
          return step.reads == original(run.reads) && step.writes == original(run.writes);
        }))
      return ::testing::AssertionFailure() << "a run is no step of the problem";
  }
  return ::testing::AssertionSuccess();
}

TEST(Planning, RecomputationKeepsTheProgram) {
  std::mt19937 random(20261123);
  int64_t repeated = 0, smaller = 0, stored = 0, loaded = 0;
  for (int round = 0; round < 300; ++round) {
    PlanProblem problem = randomProblem(random, 1 + int(random() % 80));
    problem.files = round % 2;
    for (PlanProblem::Value &value : problem.values)
      value.bytes *= kLeastLoan / 64; // smaller ones are never given up
    for (PlanProblem::Step &step : problem.steps) {
      step.repeatable = random() % 8 != 0;
      step.cost = double(1 + random() % 1000) * (problem.files ? 10'000 : 1);
    }
    StepOrder order = programOrder(problem);
    InPlaceResult inPlace = assignInPlace(problem, order);
    int64_t whole = recompute(problem, order, inPlace.root, int64_t(1) << 60).peakBytes;
    EXPECT_EQ(recompute(problem, order, inPlace.root, whole).actions, asActions(order.steps));
    for (int part : {3, 2, 1}) {
      Recomputation found = recompute(problem, order, inPlace.root, whole / 4 * part);
      ASSERT_TRUE(means(problem, repeatSteps(problem, found.actions))) << "round " << round;
      repeated += count(found, PlanAction::Kind::Step) - int64_t(order.steps.size());
      stored += count(found, PlanAction::Kind::Store);
      loaded += count(found, PlanAction::Kind::Load);
      smaller += found.peakBytes < whole;
    }
  }
  EXPECT_GT(repeated, 500);
  EXPECT_GT(smaller, 100);
  EXPECT_GT(stored, 100);
  EXPECT_GT(loaded, stored); // some more than once
}

// A chain whose values are all kept for the way back: with memory for a few of them, most are
// computed again, and no step runs more often than a chain of such segments asks for.
TEST(Planning, AChainAndItsWayBackFitInAQuarter) {
  constexpr int kLayers = 64;
  constexpr int64_t kBytes = 1 << 20;
  PlanProblem problem;
  auto add = [&](Kind kind) {
    problem.values.push_back({kBytes, kind, kind == Kind::Output});
    return int32_t(problem.values.size() - 1);
  };
  std::vector<int32_t> forward = {add(Kind::Input)};
  for (int layer = 0; layer < kLayers; ++layer) {
    forward.push_back(add(Kind::Arena));
    problem.steps.push_back({{forward[layer]}, {forward[layer + 1]}, {}});
  }
  int32_t gradient = forward.back();
  for (int layer = kLayers; layer-- > 0;) {
    int32_t next = add(layer == 0 ? Kind::Output : Kind::Arena);
    problem.steps.push_back({{forward[layer], gradient}, {next}, {}});
    gradient = next;
  }
  for (PlanProblem::Step &step : problem.steps)
    step.repeatable = true, step.cost = double(kBytes);
  StepOrder order = programOrder(problem);
  std::vector<int32_t> buffers = assignInPlace(problem, order).root;
  int64_t whole = plannedBytes(problem, order);
  Recomputation found = recompute(problem, order, buffers, whole / 4);
  PlanProblem repeated = repeatSteps(problem, found.actions).problem;
  EXPECT_TRUE(found.complete);
  EXPECT_LE(plannedBytes(repeated, programOrder(repeated)), whole / 4 + 2 * kBytes);
  EXPECT_LE(found.actions.size(), order.steps.size() + 2 * kLayers);
  // Nothing that a step which cannot run again writes is given up.
  for (PlanProblem::Step &step : problem.steps)
    step.repeatable = false;
  EXPECT_EQ(recompute(problem, order, buffers, whole / 4).actions, asActions(order.steps));
  // But files keep it.
  problem.files = true;
  for (PlanProblem::Step &step : problem.steps)
    step.cost = 100 * double(kBytes);
  found = recompute(problem, order, buffers, whole / 4);
  repeated = repeatSteps(problem, found.actions).problem;
  EXPECT_TRUE(found.complete);
  EXPECT_LE(plannedBytes(repeated, programOrder(repeated)), whole / 4 + 2 * kBytes);
  EXPECT_EQ(count(found, PlanAction::Kind::Step), int64_t(order.steps.size()));
  EXPECT_GT(count(found, PlanAction::Kind::Store), kLayers / 2);
  EXPECT_EQ(count(found, PlanAction::Kind::Load), count(found, PlanAction::Kind::Store));
  EXPECT_EQ(found.cost, double(count(found, PlanAction::Kind::Store)) *
                            (2 * kFileCallCost + double(kBytes) * (kStoreCost + kLoadCost)));
}

// Each layer writes what costs much (a product) and what is nearly free (its activation), and both
// are kept for the way back. The free ones are given up, and no product runs twice.
struct Layers {
  static constexpr int kLayers = 16;
  static constexpr int64_t kBytes = 1 << 20;

  // cheap: what an activation costs, where a product costs 1000. inputBytes: of one more input.
  explicit Layers(double cheap, int64_t inputBytes = 0) {
    auto add = [&](Kind kind, int64_t bytes = kBytes) {
      problem.values.push_back({bytes, kind, kind == Kind::Output});
      return int32_t(problem.values.size() - 1);
    };
    auto step = [&](llvm::ArrayRef<int32_t> reads, int32_t writes, double cost) {
      problem.steps.push_back({{reads.begin(), reads.end()}, {writes}, {}});
      problem.steps.back().repeatable = true;
      problem.steps.back().cost = cost;
      all += cost;
    };
    int32_t input = add(Kind::Input, inputBytes);
    std::vector<int32_t> products, activations = {add(Kind::Input)};
    for (int layer = 0; layer < kLayers; ++layer) {
      products.push_back(add(Kind::Arena));
      step({activations.back(), input}, products.back(), 1000);
      activations.push_back(add(Kind::Arena));
      step({products.back()}, activations.back(), cheap);
    }
    int32_t gradient = activations.back();
    for (int layer = kLayers; layer-- > 0;) {
      int32_t next = add(layer == 0 ? Kind::Output : Kind::Arena);
      step({products[layer], activations[layer], gradient}, next, 1000);
      gradient = next;
    }
    order = programOrder(problem);
    buffers = assignInPlace(problem, order).root;
    whole = recompute(problem, order, buffers, int64_t(1) << 60).peakBytes;
    free = recomputeFreely(problem, order, buffers);
    further = recomputeFurther(problem, order, buffers, free);
  }

  PlanProblem problem;
  double all = 0; // cost
  StepOrder order;
  std::vector<int32_t> buffers;
  int64_t whole = 0; // bytes, where nothing is given up
  Recomputation free, further;
};

TEST(Planning, WhatCostsNextToNothingIsNotKept) {
  Layers layers(10); // 0.5 % of all, together
  EXPECT_TRUE(layers.free.complete);
  EXPECT_LE(layers.free.peakBytes, layers.whole * 6 / 10);
  EXPECT_GT(layers.free.cost, 0);
  EXPECT_LE(layers.free.cost, kFreeRecomputedShare * layers.all);
  std::vector<int> times(layers.problem.steps.size());
  for (PlanAction action : layers.free.actions)
    ++times[action.index];
  for (size_t s = 0; s < times.size(); ++s)
    EXPECT_LE(times[s], layers.problem.steps[s].cost > 10 ? 1 : 2) << "step " << s;
  EXPECT_EQ(layers.further.actions, layers.free.actions); // nothing else is cheap
  // A limit gives up products, too.
  EXPECT_GT(
      recompute(layers.problem, layers.order, layers.buffers, layers.whole / 4).cost,
      layers.free.cost);
}

TEST(Planning, WhatCostsLittleIsNotKeptWhereThatSavesMuch) {
  Layers layers(80); // 3.8 % of all, together
  EXPECT_LE(layers.free.cost, kFreeRecomputedShare * layers.all);
  EXPECT_GT(layers.further.cost, kFreeRecomputedShare * layers.all);
  EXPECT_LE(layers.further.cost, kFurtherShare * layers.all);
  EXPECT_LE(double(layers.further.peakBytes),
            (1 - kFurtherSaving) * double(layers.free.peakBytes));
  // Beside a large input it saves little.
  Layers beside(80, 100 * Layers::kBytes);
  EXPECT_EQ(beside.free.actions, layers.free.actions);
  EXPECT_EQ(beside.further.actions, beside.free.actions);
  // All of them together cost too much, and so few of them save too little.
  Layers dear(400);
  EXPECT_LE(dear.further.cost, kFurtherShare * dear.all);
  EXPECT_EQ(dear.further.actions, dear.free.actions);
}

// A step that runs again for one of its values writes the other one, too, which then is not loaded.
TEST(Planning, WhatAStepWritesThatRunsAgainIsNotLoaded) {
  constexpr int64_t kBytes = 4 << 20;
  PlanProblem problem;
  problem.files = true;
  problem.values = {{kBytes, Kind::Input}, {4 * kBytes, Kind::Arena}, {kBytes, Kind::Arena},
                    {kBytes, Kind::Arena}, {kBytes, Kind::Arena},     {kBytes, Kind::Output, true}};
  // Value 1 is cheap for its size, value 2 costs more than its file.
  problem.steps = {
      {{0}, {1, 2}, {}}, {{0}, {3}, {}}, {{3}, {4}, {}}, {{1, 2, 4}, {5}, {}}};
  for (PlanProblem::Step &step : problem.steps)
    step.repeatable = true, step.cost = 20 * double(kBytes);
  StepOrder order = programOrder(problem);
  std::vector<int32_t> buffers = assignInPlace(problem, order).root;
  for (int64_t budget = kBytes; budget < 9 * kBytes; budget += kBytes / 2) {
    Recomputation found = recompute(problem, order, buffers, budget);
    ASSERT_TRUE(means(problem, repeatSteps(problem, found.actions))) << budget;
    bool runsAgain = count(found, PlanAction::Kind::Step) > int64_t(order.steps.size());
    for (PlanAction action : found.actions)
      EXPECT_FALSE(runsAgain && action.kind == PlanAction::Kind::Load && action.index == 2)
          << budget;
  }
}

// A value without elements has no writer, and is not missed.
TEST(Planning, NothingIsMissedOfAValueThatNobodyWrites) {
  constexpr int64_t kBytes = 1 << 20;
  PlanProblem problem;
  problem.values = {{kBytes, Kind::Input}, {0, Kind::Arena},      {kBytes, Kind::Arena},
                    {kBytes, Kind::Arena}, {kBytes, Kind::Arena}, {kBytes, Kind::Output, true}};
  problem.steps = {{{0, 1}, {2}, {}}, {{2}, {3}, {}}, {{3}, {4}, {}}, {{2, 4}, {5}, {}}};
  for (PlanProblem::Step &step : problem.steps)
    step.repeatable = true, step.cost = 1;
  StepOrder order = programOrder(problem);
  std::vector<int32_t> buffers = assignInPlace(problem, order).root;
  EXPECT_EQ(recompute(problem, order, buffers, 2 * kBytes).actions, asActions({0, 1, 2, 0, 3}));
}

// A donated input whose memory an update has taken is not there any more.
TEST(Planning, NothingIsComputedAgainFromWhatWasUpdatedSince) {
  constexpr int64_t kBytes = 1 << 20;
  PlanProblem problem;
  problem.values = {{kBytes, Kind::Donated},      {kBytes, Kind::Arena},
                    {kBytes, Kind::Arena},        {kBytes, Kind::Arena},
                    {kBytes, Kind::Output, true}, {kBytes, Kind::Output, true}};
  problem.steps = {{{0}, {1}, {}}, // kept for the end
                   {{0}, {2}, {}}, // what else takes memory
                   {{2}, {3}, {}},
                   {{0, 3}, {4}, {{0, 0}}}, // the update, in place
                   {{1}, {5}, {}}};
  for (PlanProblem::Step &step : problem.steps)
    step.repeatable = true, step.cost = 1;
  StepOrder order = programOrder(problem);
  std::vector<int32_t> buffers = assignInPlace(problem, order).root;
  ASSERT_EQ(buffers[4], 0);
  EXPECT_EQ(recompute(problem, order, buffers, 2 * kBytes).actions, asActions(order.steps));
  problem.steps[3].inPlace.clear(); // the update has memory of its own
  buffers = assignInPlace(problem, order).root;
  ASSERT_EQ(buffers[4], 4);
  EXPECT_GT(recompute(problem, order, buffers, 2 * kBytes).actions.size(), order.steps.size());
}

// A chain of elementwise steps lives in its output's buffer.
TEST(Planning, AChainInPlaceNeedsNoArena) {
  PlanProblem problem;
  problem.values.push_back({256, Kind::Input, false});
  for (int i = 1; i <= 10; ++i) {
    problem.values.push_back({256, i == 10 ? Kind::Output : Kind::Arena, i == 10});
    problem.steps.push_back({{int32_t(i - 1)}, {int32_t(i)}, {{0, 0}}});
  }
  StepOrder order = programOrder(problem);
  InPlaceResult inPlace = assignInPlace(problem, order);
  EXPECT_EQ(inPlace.reuses, 9);
  EXPECT_TRUE(lifetimes(applyInPlace(problem, inPlace), order).empty());
}

TEST(Planning, ADonatedInputBecomesAnOutputThatItsLastReaderPrecedes) {
  PlanProblem problem;
  problem.values = {
      {256, Kind::Donated, false}, {256, Kind::Arena, false}, {256, Kind::Output, true}};
  problem.steps = {{{0}, {1}, {}}, {{1}, {2}, {}}};
  InPlaceResult inPlace = assignInPlace(problem, programOrder(problem));
  EXPECT_EQ(inPlace.donations, 1);
  EXPECT_EQ(inPlace.root[2], 0);
  // Not when it is still read by the step that writes the output, and the step does not allow it.
  problem.steps[1].reads.push_back(0);
  EXPECT_EQ(assignInPlace(problem, programOrder(problem)).donations, 0);
}

// What kept inputs hold, nobody writes before the last check of which no equal one came earlier.
TEST(Planning, KeptInputsAreWrittenAfterTheChecks) {
  std::mt19937 random(20261121);
  int kept = 0, waited = 0;
  for (int round = 0; round < 200; ++round) {
    PlanProblem problem = randomProblem(random, 1 + int(random() % 40));
    for (PlanProblem::Value &value : problem.values)
      value.kept = value.kind == Kind::Donated && random() % 3;
    for (PlanProblem::Step &step : problem.steps)
      if (random() % 8 == 0)
        step.checks = {int32_t(random() % 3), int32_t(3 + random() % 3)};
    for (StepOrder order : {programOrder(problem), greedyOrder(problem)}) {
      StepOrder first = checksFirst(problem, order);
      ASSERT_TRUE(isLegal(problem, first)) << "round " << round;
      ASSERT_LE(lastCheck(problem, first), lastCheck(problem, order)) << "round " << round;
      for (const StepOrder &each : {order, first}) {
        InPlaceResult inPlace = assignInPlace(problem, each);
        std::vector<Lifetime> lives = lifetimes(applyInPlace(problem, inPlace), each);
        ASSERT_TRUE(runs(problem, each, inPlace, lives, pack(lives)))
            << "round " << round << ", " << each.name;
        int last = lastCheck(problem, each);
        for (int position = 0; position < int(each.steps.size()); ++position)
          for (int32_t v : problem.steps[each.steps[position]].writes) {
            if (!problem.values[inPlace.root[v]].kept)
              continue;
            ++kept;
            waited += last >= 0;
            ASSERT_GT(position, last) << "round " << round << ", " << each.name;
          }
      }
    }
  }
  EXPECT_GT(kept, 100);
  EXPECT_GT(waited, 10);
}

TEST(Planning, OfEqualChecksTheFirstDecides) {
  PlanProblem problem;
  problem.values = {{256, Kind::Donated, false},
                    {256, Kind::Arena, false},
                    {256, Kind::Output, true},
                    {64, Kind::Output, true}};
  problem.values[0].kept = true;
  problem.steps = {{{0}, {1}, {}, {0}}, {{1}, {2}, {}}, {{1}, {3}, {}, {0}}};
  EXPECT_EQ(lastCheck(problem, programOrder(problem)), 0);
  EXPECT_EQ(assignInPlace(problem, programOrder(problem)).root[2], 0);
  problem.steps[2].checks = {1};
  EXPECT_EQ(lastCheck(problem, programOrder(problem)), 2);
  EXPECT_EQ(assignInPlace(problem, programOrder(problem)).donations, 0);
  // The second check does not need the update.
  EXPECT_EQ(checksFirst(problem, programOrder(problem)).steps, (std::vector<int32_t>{0, 2, 1}));
  EXPECT_EQ(assignInPlace(problem, checksFirst(problem, programOrder(problem))).root[2], 0);
}

TEST(Planning, ADonatedInputThatIsAsLargeOnlyAtTheLargestSizesIsNotTaken) {
  PlanProblem problem;
  problem.values = {
      {256, Kind::Donated, false, 1}, {256, Kind::Arena, false}, {256, Kind::Output, true}};
  problem.steps = {{{0}, {1}, {}}, {{1}, {2}, {}}};
  EXPECT_EQ(assignInPlace(problem, programOrder(problem)).donations, 0);
  problem.values[2].extent = 1;
  EXPECT_EQ(assignInPlace(problem, programOrder(problem)).donations, 1);
}

TEST(Planning, AnOutputPrefersADonatedInputToAnIntermediateValue) {
  PlanProblem problem;
  problem.values = {
      {256, Kind::Donated, false}, {256, Kind::Arena, false}, {256, Kind::Output, true}};
  problem.steps = {{{0}, {1}, {}}, {{1, 0}, {2}, {{0, 0}, {0, 1}}}};
  InPlaceResult inPlace = assignInPlace(problem, programOrder(problem));
  EXPECT_EQ(inPlace.root[2], 0);
  EXPECT_EQ(inPlace.root[1], 1);
}

TEST(Planning, AReturnedInputIsNeverOverwritten) {
  PlanProblem problem;
  problem.values = {{256, Kind::Donated, true}, {256, Kind::Output, true}};
  problem.steps = {{{0}, {1}, {{0, 0}}}};
  EXPECT_EQ(assignInPlace(problem, programOrder(problem)).root[1], 1);
}

// Forward values are read again in reverse, as backward passes do.
PlanProblem trainingLike(int layers, std::mt19937 &random) {
  PlanProblem problem;
  problem.values.push_back({4096, Kind::Input, false});
  int32_t last = 0;
  std::vector<int32_t> saved;
  for (int i = 0; i < layers; ++i) {
    int64_t bytes = 64 * (1 + random() % 1000);
    problem.values.push_back({bytes, Kind::Arena, false});
    problem.values.push_back({bytes / 2, Kind::Arena, false});
    int32_t a = int32_t(problem.values.size() - 2), b = a + 1;
    problem.steps.push_back({{last}, {a, b}, {}});
    saved.push_back(a);
    last = b;
  }
  for (int i = layers; i-- > 0;) {
    problem.values.push_back(
        {problem.values[saved[i]].bytes, i ? Kind::Arena : Kind::Output, i == 0});
    int32_t g = int32_t(problem.values.size() - 1);
    problem.steps.push_back({{saved[i], last}, {g}, {}});
    last = g;
  }
  return problem;
}

TEST(Planning, StaysNearTheBoundOnTrainingLikePrograms) {
  std::mt19937 random(7);
  for (int layers : {4, 16, 64, 256}) {
    PlanProblem problem = trainingLike(layers, random);
    StepOrder order = programOrder(problem);
    std::vector<Lifetime> lives = lifetimes(problem, order);
    Packing packing = pack(lives);
    EXPECT_LE(double(packing.arenaBytes), 1.05 * double(liveBound(lives)))
        << layers << " layers, packed " << packing.name;
  }
}

TEST(Planning, ABranchIsFinishedBeforeTheNextOneStarts) {
  // 64 branches from one value, each 100 times as large inside, listed level by level, as broad
  // graphs are recorded.
  PlanProblem problem;
  problem.values.push_back({64, Kind::Input, false});
  std::vector<int32_t> wide, narrow;
  for (int i = 0; i < 64; ++i) {
    problem.values.push_back({6400, Kind::Arena, false});
    wide.push_back(int32_t(problem.values.size() - 1));
    problem.steps.push_back({{0}, {wide.back()}, {}});
  }
  for (int i = 0; i < 64; ++i) {
    problem.values.push_back({64, Kind::Output, true});
    problem.steps.push_back({{wide[i]}, {int32_t(problem.values.size() - 1)}, {}});
  }
  auto bound = [&](const StepOrder &order) {
    return liveBound(lifetimes(problem, order));
  };
  EXPECT_EQ(bound(programOrder(problem)), 64 * 6400);
  EXPECT_EQ(bound(depthFirstOrder(problem)), 6400);
  EXPECT_EQ(bound(greedyOrder(problem)), 6400);
}

TEST(Planning, LongChainsAndManyUsersTakeNearlyLinearTime) {
  PlanProblem chain;
  chain.values.push_back({64, Kind::Input, false});
  for (int i = 1; i <= 300'000; ++i) {
    chain.values.push_back({128, Kind::Arena, false});
    chain.steps.push_back({{int32_t(i - 1)}, {int32_t(i)}, {}});
  }
  PlanProblem users;
  users.values = {{64, Kind::Input, false}, {128, Kind::Arena, false}};
  users.steps.push_back({{0}, {1}, {}});
  for (int i = 0; i < 40'000; ++i) {
    users.values.push_back({128, Kind::Arena, false});
    users.steps.push_back({{1}, {int32_t(users.values.size() - 1)}, {}});
  }
  PlanProblem::Step all;
  for (int i = 0; i < 40'000; ++i)
    all.reads.push_back(2 + i);
  users.values.push_back({128, Kind::Output, true});
  all.writes = {int32_t(users.values.size() - 1)};
  users.steps.push_back(all);
  for (const PlanProblem &problem : {chain, users})
    for (const StepOrder &order :
         {programOrder(problem), depthFirstOrder(problem), greedyOrder(problem)}) {
      ASSERT_TRUE(isLegal(problem, order));
      std::vector<Lifetime> lives =
          lifetimes(applyInPlace(problem, assignInPlace(problem, order)), order);
      EXPECT_EQ(pack(lives).arenaBytes, liveBound(lives));
    }
}

} // namespace
} // namespace weft::compiler
