// Programs that serve many sizes and slice starts: how many are compiled, and that they compute what static ones compute, bit for bit.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

namespace weft {
namespace {

uint64_t compiles() { return statistics().compiles + statistics().disk_hits; }

Evaluation last() { return recent_evaluations().back(); }

// Different in every test, so that no test finds the programs of another.
class Symbolic : public testing::Test {};

TEST_F(Symbolic, ALoopThatIndexesByItsStep) {
  Tensor x = arange(1000 * 3).reshape({1000, 3}).to(float32), y = zeros({3});
  x.eval();
  y.eval();
  uint64_t before = compiles(), hits = statistics().symbolic_hits;
  std::vector<float> expected(3);
  for (int i = 0; i < 1000; ++i) {
    y = y + x[i];
    y.eval();
    for (int k = 0; k < 3; ++k) expected[k] += float(3 * i + k);
  }
  EXPECT_EQ(y.to_vector<float>(), expected);
  // The first step does not own y alone, the others do.
  EXPECT_LE(compiles() - before, 3u);
  EXPECT_GE(statistics().symbolic_hits - hits, 997u);
  EXPECT_NE(last().symbolic.find("a0=999"), std::string::npos) << last().to_string();
  EXPECT_NE(last().to_string().find("hit (symbolic, a0=999)"), std::string::npos) << last().to_string();
}

TEST_F(Symbolic, SlicesOfAllKinds) {
  Tensor x = arange(40 * 5).reshape({40, 5}).to(float32) * 1.5;
  x.eval();
  uint64_t before = compiles();
  for (int i = 0; i < 10; ++i) {
    // Two starts, one of them backwards; a column; a row from the end.
    Tensor rows = x.slice(0, i, i + 7) - x.slice(0, 2 * i + 1, 2 * i + 15, 2);
    Tensor value = rows * 2.0 + x.select(1, i % 5).slice(0, 3, 10).reshape({7, 1}) + x[39 - i];
    std::vector<float> got = value.to_vector<float>();
    for (int r = 0; r < 7; ++r)
      for (int c = 0; c < 5; ++c) {
        auto at = [](int row, int column) { return float(5 * row + column) * 1.5f; };
        EXPECT_EQ(got[5 * r + c], (at(i + r, c) - at(2 * i + 1 + 2 * r, c)) * 2.f + at(3 + r, i % 5) + at(39 - i, c)) << i;
      }
  }
  EXPECT_LE(compiles() - before, 3u);
}

TEST_F(Symbolic, WritesAtAVaryingPlace) {
  Tensor cache = zeros({20, 4, 3});
  uint64_t before = compiles();
  std::vector<float> expected(20 * 4 * 3);
  for (int i = 0; i < 20; ++i) {
    cache.slice(1, 1, 3)[i].copy_(full({2, 3}, i + 1.0));
    for (int k = 3; k < 9; ++k) expected[12 * i + k] = float(i + 1);
    cache.eval();
  }
  EXPECT_EQ(cache.to_vector<float>(), expected);
  EXPECT_LE(compiles() - before, 4u);
}

TEST_F(Symbolic, TheGradientOfAVaryingSlice) {
  Tensor x = arange(12).reshape({6, 2}).to(float32);
  x.set_requires_grad(true);
  uint64_t before = compiles();
  for (int i = 0; i < 6; ++i) {
    Tensor loss = sum(x[i] * x[i]);
    Tensor g = grad({loss}, {x})[0];
    std::vector<float> expected(12);
    expected[2 * i] = 2.f * float(2 * i), expected[2 * i + 1] = 2.f * float(2 * i + 1);
    EXPECT_EQ(g.to_vector<float>(), expected) << i;
  }
  EXPECT_LE(compiles() - before, 2u);
}

TEST_F(Symbolic, ExplainSaysWhatVaries) {
  Tensor x = arange(30).reshape({10, 3}).to(float32);
  x.eval();
  (x[3] - 0.25).eval();
  (x[5] - 0.25).eval();
  Evaluation compiled = last();
  EXPECT_EQ(compiled.outcome, CacheOutcome::kCompiled);
  EXPECT_NE(compiled.symbolic.find("a0 (start 0 of weft.slice (frontend/tests/symbolic_test.cpp:"), std::string::npos) << compiled.symbolic;
  EXPECT_TRUE(compiled.not_symbolic.empty());
  (x[9] - 0.25).eval();
  EXPECT_EQ(last().outcome, CacheOutcome::kMemoryHit);
  EXPECT_EQ(last().symbolic, "a0=9");
}

TEST_F(Symbolic, SeveralThreads) {
  Tensor x = arange(64 * 8).reshape({64, 8}).to(float32);
  x.eval();
  uint64_t before = compiles();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = t; i < 64; i += 8) {
        std::vector<float> row = (x[i] * 3.0 - 7.0).to_vector<float>();
        for (int k = 0; k < 8; ++k) wrong += row[k] != float(8 * i + k) * 3.f - 7.f;
      }
    });
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(compiles() - before, 2u);
}

} // namespace
} // namespace weft
