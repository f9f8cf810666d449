// What a process keeps from one call to the next: each cache has a row and a bound, and a process
// that meets ever new shapes, constants and lines stays within the bounds, with the same results.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <deque>
#include <fstream>
#include <map>
#include <string>
#include <thread>

namespace weft {
namespace {

using Floats = std::vector<float>;

constexpr int64_t kBound = 100, kMany = 20 * kBound;

class Caches : public testing::Test {
protected:
  void SetUp() override {
    before_ = config();
    Config small = before_;
    small.context_bound = kBound;
    set_config(small);
  }
  void TearDown() override {
    set_config(before_);
  }
  Config before_;
};

CacheState cache(const std::string &name) {
  for (const CacheState &each : caches())
    if (each.name == name)
      return each;
  ADD_FAILURE() << "there is no cache '" << name << "'";
  return {};
}

void expect_bounded() {
  for (const CacheState &each : caches()) {
    if (each.max_entries >= 0 && each.entries >= 0)
      EXPECT_LE(each.entries, each.max_entries) << each.to_string();
    if (each.max_bytes >= 0 && each.bytes >= 0)
      EXPECT_LE(each.bytes, each.max_bytes) << each.to_string();
  }
}

// A place in a source that does not exist, as a program has that makes its code while it runs.
Location place(uint32_t line) {
  struct Place {
    const char *file, *function;
    uint32_t line, column;
  };
  static_assert(sizeof(Location) == sizeof(void *));
  static std::deque<Place> places;
  places.push_back({"made.cpp", "made", line, 1});
  return std::bit_cast<Location>(&places.back());
}

TEST_F(Caches, EverNewShapesThatAreNotComputed) {
  Tensor kept = tensor({1.f, 2.f});
  for (int64_t n = 1; n < kMany; ++n)
    EXPECT_EQ(full({n, 3}, 1.f).shape(), (Shape{n, 3}));
  expect_bounded();
  EXPECT_LT(cache("types").entries, 10 * kBound);
  EXPECT_EQ((kept * 2).to_vector<float>(), (Floats{2, 4}));
}

TEST_F(Caches, EverNewSignatures) {
  Tensor x = arange(kMany, float32).eval();
  for (int64_t n = 0; n + 1 < kMany; ++n) {
    Tensor part = x.narrow(0, n, 1) * 2;
    if (n % 100 == 0)
      EXPECT_EQ(part.item<float>(), 2.f * n);
  }
  expect_bounded();
  EXPECT_LT(cache("signatures").entries, 10 * kBound);
  // Beside those of the signatures only what cached programs are found by.
  EXPECT_LT(cache("signatures' texts").entries, 20 * kBound);
}

// Whatever went since, a program that is in the cache is found.
TEST_F(Caches, ProgramsAreStillFound) {
  Config options = config();
  options.symbolic = false;
  set_config(options);
  Tensor x = ones({3}).eval();
  auto f = [&] {
    return (exp(x) * 3 + x).to_vector<float>();
  };
  auto first = f();
  uint64_t rebuilds = statistics().context_rebuilds;
  for (int64_t n = 1; n < kMany; ++n)
    (void)(full({n, 5}, 1.f) + 1);
  EXPECT_GT(statistics().context_rebuilds, rebuilds + 2);
  uint64_t compiles = statistics().compiles, hits = statistics().memory_hits;
  EXPECT_EQ(f(), first);
  EXPECT_EQ(statistics().compiles, compiles);
  EXPECT_EQ(statistics().memory_hits, hits + 1);
}

TEST_F(Caches, SymbolicProgramsAreStillFound) {
  auto f = [](int64_t n) {
    return (full({n, 4}, 2.f) * 3 + 1).sum().item<float>();
  };
  for (int64_t n = 2; n < 12; ++n)
    EXPECT_EQ(f(n), 28.f * n);
  for (int64_t n = 1; n < kMany; ++n)
    (void)(full({n, 5, 1}, 1.f) + 1);
  uint64_t compiles = statistics().compiles;
  for (int64_t n = 2; n < 12; ++n)
    EXPECT_EQ(f(n), 28.f * n);
  EXPECT_EQ(statistics().compiles, compiles);
}

// What is recorded, and history, keep what they refer to.
TEST_F(Caches, RecordsAndHistoryOutliveASweep) {
  Tensor w = tensor({0.5f, 1.f}).set_requires_grad();
  Tensor loss = (exp(w, place(1)) * 2).sum({}, false, place(2)), pending = w.detach() + 1;
  for (int64_t n = 1; n < kMany; ++n)
    (void)(add(full({n, 7}, 1.f), 1, place(static_cast<uint32_t>(10 + n))));
  loss.backward();
  EXPECT_EQ(pending.to_vector<float>(), (Floats{1.5f, 2}));
  Floats slope = w.grad().to_vector<float>();
  EXPECT_FLOAT_EQ(slope[0], 2 * std::exp(0.5f));
  EXPECT_FLOAT_EQ(slope[1], 2 * std::exp(1.f));
  expect_bounded();
}

TEST_F(Caches, EverNewLines) {
  Tensor x = tensor({3.f}).eval();
  auto at = [&](uint32_t line, float exponent) {
    return pow(x, exponent, place(line));
  };
  EXPECT_EQ(at(1, 2).item<float>(), 9);
  EXPECT_EQ(at(1, 3).item<float>(), 27);
  for (uint32_t line = 2; line < kMany; ++line)
    (void)at(line, 2);
  expect_bounded();
  EXPECT_LT(cache("source lines").entries, 10 * kBound);
  EXPECT_EQ(at(1, 4).item<float>(), 81);
  EXPECT_EQ(at(1, 2).item<float>(), 9);
}

TEST_F(Caches, JittedFunctionsWithEverNewShapes) {
  Config options = config();
  options.jit_signatures = 4;
  options.jit_check = true; // each call compares keys
  set_config(options);
  int64_t held = cache("jit programs").entries;
  {
    auto f = jit([](const Tensor &x) { return (x * 2 + 1).sum(); });
    Tensor first = ones({3}).eval();
    EXPECT_EQ(f(first).item<float>(), 9);
    for (int64_t n = 1; n < 2 * kBound; ++n) {
      EXPECT_EQ(f(ones({n % 50 + 4})).item<float>(), 3.f * (n % 50 + 4));
      for (int64_t i = 0; i < 10; ++i)
        (void)(full({n, i + 2}, 1.f) + 1);
      EXPECT_EQ(f(first).item<float>(), 9);
    }
    EXPECT_EQ(cache("jit programs").entries, held + 4);
    expect_bounded();
  }
  EXPECT_EQ(cache("jit programs").entries, held);
}

TEST_F(Caches, ProgramsOfTheirOwnKeepTheirTypes) {
  Program program = trace([](const Tensor &x) { return x * 2; }, {ones({3, 11})});
  for (int64_t n = 1; n < kMany; ++n)
    (void)(full({n, 13}, 1.f) + 1);
  EXPECT_EQ(program.input_shapes()[0], (Shape{3, 11}));
  EXPECT_EQ(program.run({ones({3, 11})})[0].to_vector<float>(), Floats(33, 2.f));
}

// docs/caches.md has an item for each: - **NAME**: what it holds. Its bound. Freed by: WHAT.
// A thread keeps some freed records for itself; what it has when it ends serves others, also where
// it has recorded nothing itself.
TEST_F(Caches, ThreadsThatEndLeaveTheirRecordsToOthers) {
  auto record = [] {
    std::vector<Tensor> made = {ones({4})};
    for (int i = 0; i < 300; ++i)
      made.push_back(made.back() + 1.0);
    return made;
  };
  auto round = [&] {
    std::thread([&] { record(); }).join();
    std::vector<Tensor> made = record();
    std::thread([&] { made.clear(); }).join();
  };
  for (int i = 0; i < 4; ++i)
    round();
  int64_t before = cache("records").bytes;
  for (int i = 0; i < 100; ++i)
    round();
  EXPECT_EQ(cache("records").bytes, before);
}

TEST_F(Caches, ThePageNamesAll) {
  std::ifstream page("docs/caches.md");
  ASSERT_TRUE(page) << "the test runs where docs/caches.md is";
  std::vector<std::string> items;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    bool starts = line.rfind("- **", 0) == 0;
    inside = starts || (inside && line.rfind("  ", 0) == 0);
    if (starts)
      items.push_back(line.substr(4));
    else if (inside)
      items.back() += line.substr(1);
  }
  std::map<std::string, std::string> named;
  const std::string freed = "Freed by: ";
  for (const std::string &item : items) {
    size_t end = item.find("**"), at = item.find(freed);
    ASSERT_NE(end, std::string::npos) << item;
    ASSERT_NE(at, std::string::npos) << item;
    at += freed.size();
    named[item.substr(0, end)] = item.substr(at, item.size() - 1 - at); // without the full stop
  }
  std::map<std::string, std::string> registered;
  for (const CacheState &each : caches())
    EXPECT_TRUE(registered.emplace(each.name, each.freed).second) << each.name << " twice";
  EXPECT_EQ(named, registered);
}

} // namespace
} // namespace weft
