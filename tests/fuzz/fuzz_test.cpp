// Random programs give the same on every way to run them; each shard of the test has programs of its own. WEFT_FUZZ_SEED starts elsewhere.
#include <cstdlib>

#include <gtest/gtest.h>

#include "dialects/weft/ir/OpTable.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/checked_backend.h"
#include "tests/fuzz/machine.h"

namespace weft::fuzz {
namespace {

constexpr uint64_t kPrograms = 2000, kBatches = 40;

uint64_t first_seed() {
  const char *given = std::getenv("WEFT_FUZZ_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 1;
}

class RandomPrograms : public testing::TestWithParam<uint64_t> {};

TEST_P(RandomPrograms, AgreeHoweverTheyAreRun) {
  uint64_t first = first_seed() + GetParam() * (kPrograms / kBatches);
  std::printf("seeds %llu to %llu\n", static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(first + kPrograms / kBatches - 1));
  for (uint64_t seed = first; seed < first + kPrograms / kBatches; ++seed) {
    Program program = generate(seed);
    std::string wrong = check(program);
    ASSERT_EQ(wrong, "") << report(program, wrong);
  }
}

INSTANTIATE_TEST_SUITE_P(Batches, RandomPrograms, testing::Range<uint64_t>(0, kBatches));

// Ops without a row in calls.cpp would go untested unnoticed.
TEST(Calls, ReachEveryOpOfTheRecords) {
  std::set<std::string> missing;
  for (const ir::OpRow &row : ir::opTable()) missing.insert(std::string("weft.") + row.mnemonic);
  for (uint64_t seed = 1; seed < 2000 && !missing.empty(); ++seed) {
    Outcome outcome = run(generate(seed), {"checked", kCheckedBackend});
    ASSERT_EQ(outcome.error, "") << "seed " << seed;
    for (const std::string &op : checked_ops()) missing.erase(op);
  }
  std::string names;
  for (const std::string &op : missing) names += " " + op;
  EXPECT_TRUE(missing.empty()) << "no random program uses" << names << ": give tests/fuzz/calls.cpp a call that is recorded as it";
}

TEST(Programs, AreTheSameForASeed) {
  for (uint64_t seed = 1; seed < 50; ++seed) EXPECT_EQ(to_cpp(generate(seed)), to_cpp(generate(seed)));
}

} // namespace
} // namespace weft::fuzz
