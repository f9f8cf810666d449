// Random programs give the same on every way to run them; each shard of the test has programs of
// its own. A part of them has the same seeds in every run, so that what was right stays right; the
// others start at a seed that is printed: tools/test.sh takes it from the tree that is checked out,
// else it is new in each run. --seed=N (bazel's --test_arg) takes them again. --programs=N takes
// fewer or more than 5,000 (rounded up to a multiple of the batches); WEFT_FUZZ_SEED and
// WEFT_FUZZ_PROGRAMS in the environment do the same.
#include <algorithm>
#include <random>

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

#include "dialects/weft/ir/OpTable.h"
#include "tests/fuzz/calls.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/checked_backend.h"
#include "tests/fuzz/function.h"
#include "tests/fuzz/machine.h"
#include "tests/fuzz/sizes.h"
#include "tests/fuzz/threads.h"

namespace weft::fuzz {
namespace {

constexpr uint64_t kBatches = 40, kPrograms = 5000;

struct Options {
  uint64_t seed = 0, programs = kPrograms;
};
Options options;

class RandomPrograms : public testing::TestWithParam<uint64_t> {
protected:
  // Every fifth batch is the same in each run.
  static uint64_t first_seed() {
    return (GetParam() % 5 == 0 ? 1 : options.seed) + GetParam() * count();
  }
  static uint64_t count() {
    return std::max<uint64_t>((options.programs + kBatches - 1) / kBatches, 1);
  }
};

TEST_P(RandomPrograms, AgreeHoweverTheyAreRun) {
  uint64_t first = first_seed(), end = first + count();
  std::printf("seeds %llu to %llu\n", static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(end - 1));
  std::vector<Program> programs;
  for (uint64_t seed = first; seed < end; ++seed)
    programs.push_back(generate(seed));
  // Before one thread has compiled them.
  for (const char *backend : {"cpu", "reference"})
    ASSERT_EQ(check_threads(programs, backend), "");
  for (const Program &program : programs) {
    std::string wrong = check(program);
    ASSERT_EQ(wrong, "") << report(program, wrong);
  }
}

INSTANTIATE_TEST_SUITE_P(Batches, RandomPrograms, testing::Range<uint64_t>(0, kBatches));

// What a row is off by its operands is judged by moving them; where there are two, most rows must
// see them move apart.
TEST(Budgets, RowsOfTwoNearlyEqualElements) {
  std::vector<int64_t> near_zero = {static_cast<int64_t>(float32), 7, -10, 10, 0, 0};
  for (Step last : {Step{"layer_norm", {1}, {{2}}}, Step{"layer_norm", {1}, {{2, 1}}}}) {
    Shape shape = {400, 2};
    if (last.numbers[0].size() == 2)
      shape.push_back(1);
    Program program{
        1,
        {{"input", {}, {near_zero, shape}}, {"add scalar", {0}, {{100 * kScalarUnit}}}, last},
        {2}};
    EXPECT_EQ(check(program), "");
  }
}

// A constant row of 952 elements: the mean is off by a rounding for each of them where the
// reference adds in order, and layer_norm divides that by sqrt(eps).
TEST(Budgets, AConstantRowInDoublePrecision) {
  std::vector<int64_t> zero = {static_cast<int64_t>(float64), 7, 0, 0, 0, 0};
  Program program{1,
                  {{"input", {}, {zero, {119, 8}}},
                   {"add scalar", {0}, {{3541}}},
                   {"layer_norm", {1}, {{119, 8}}}},
                  {2}};
  EXPECT_EQ(check(program), "");
}

// Ops without a row in calls.cpp would go untested unnoticed.
TEST(Calls, ReachEveryOpOfTheRecords) {
  std::set<std::string> missing;
  for (const ir::OpRow &row : ir::opTable())
    missing.insert(std::string("weft.") + row.mnemonic);
  missing.erase("weft.transfer"); // no program holds it
  missing.erase("weft.detach");   // traced functions alone do, which this backend does not see
  // Too few programs differentiate attention of what they differentiate by. Conformance, gradients
  // of both orders and kernel tests hold the op.
  missing.erase("weft.attention_gradient");
  for (uint64_t seed = 1; seed < 2000 && !missing.empty(); ++seed) {
    Outcome outcome = run(generate(seed), fuzz::Setup{"checked", kCheckedBackend});
    ASSERT_EQ(outcome.error, "") << "seed " << seed;
    for (const std::string &op : checked_ops())
      missing.erase(op);
  }
  std::string names;
  for (const std::string &op : missing)
    names += " " + op;
  EXPECT_TRUE(missing.empty()) << "no random program uses" << names
                               << ": give tests/fuzz/calls.cpp a call that is recorded as it";
}

TEST(Programs, AreTheSameForASeed) {
  for (uint64_t seed = 1; seed < 50; ++seed)
    EXPECT_EQ(to_cpp(generate(seed)), to_cpp(generate(seed)));
}

// A second call may be refused where a first one was not (a write to what now has a history), but
// then the ways to call a function go unseen.
TEST(Functions, CanBeCalledTwiceMostly) {
  for (uint64_t seed = 1; seed <= 100; ++seed)
    check_functions(generate(seed));
  FunctionCounts counts = function_counts();
  EXPECT_GE(counts.checked, 100);
  EXPECT_LT(counts.refused, counts.checked / 20);
}

// Else what is checked is that a program equals itself.
TEST(Sizes, AreServedByProgramsForManyMostly) {
  for (uint64_t seed = 1; seed <= 4; ++seed)
    EXPECT_EQ(check_sizes(generate(seed)), "") << "seed " << seed;
  SizeCounts counts = size_counts();
  EXPECT_GE(counts.all, 25);
  EXPECT_GT(counts.symbolic, counts.all / 8);
}

} // namespace
} // namespace weft::fuzz

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  using weft::fuzz::options;
  std::random_device device;
  options.seed = (uint64_t{device()} << 20) + 1000000; // beyond those of every run
  CLI::App app("Random programs");
  app.add_option("--seed", options.seed, "of the programs that are new in each run")
      ->envname("WEFT_FUZZ_SEED");
  app.add_option("--programs", options.programs, "how many, in all shards together")
      ->envname("WEFT_FUZZ_PROGRAMS");
  CLI11_PARSE(app, argc, argv);
  std::printf("--seed=%llu\n", static_cast<unsigned long long>(options.seed));
  return RUN_ALL_TESTS();
}
