// Random programs give the same on every way to run them; each shard of the test has programs of
// its own. WEFT_FUZZ_SEED starts elsewhere, WEFT_FUZZ_PROGRAMS takes fewer or more than 2,000
// (rounded up to a multiple of the batches).
#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "dialects/weft/ir/OpTable.h"
#include "tests/fuzz/calls.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/checked_backend.h"
#include "tests/fuzz/machine.h"

namespace weft::fuzz {
namespace {

constexpr uint64_t kBatches = 40;

uint64_t setting(const char *name, uint64_t otherwise) {
  const char *given = std::getenv(name);
  return given ? std::strtoull(given, nullptr, 10) : otherwise;
}

uint64_t first_seed() {
  return setting("WEFT_FUZZ_SEED", 1);
}
uint64_t programs_of_a_batch() {
  return std::max<uint64_t>((setting("WEFT_FUZZ_PROGRAMS", 2000) + kBatches - 1) / kBatches, 1);
}

class RandomPrograms : public testing::TestWithParam<uint64_t> {};

TEST_P(RandomPrograms, AgreeHoweverTheyAreRun) {
  uint64_t first = first_seed() + GetParam() * programs_of_a_batch(),
           end = first + programs_of_a_batch();
  std::printf("seeds %llu to %llu\n", static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(end - 1));
  for (uint64_t seed = first; seed < end; ++seed) {
    Program program = generate(seed);
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

// Ops without a row in calls.cpp would go untested unnoticed.
TEST(Calls, ReachEveryOpOfTheRecords) {
  std::set<std::string> missing;
  for (const ir::OpRow &row : ir::opTable())
    missing.insert(std::string("weft.") + row.mnemonic);
  for (uint64_t seed = 1; seed < 2000 && !missing.empty(); ++seed) {
    Outcome outcome = run(generate(seed), {"checked", kCheckedBackend});
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

} // namespace
} // namespace weft::fuzz
