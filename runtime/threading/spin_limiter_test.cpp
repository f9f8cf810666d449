#include "runtime/threading/spin_limiter.h"

#include <gtest/gtest.h>

#include <atomic>

#include "runtime/threading/parallel_for.h"

namespace weft::runtime {
namespace {

using std::chrono::milliseconds;

TEST(SpinLimiter, ComesWithNeighboursAndGoesWhenItHasBeenQuietForLong) {
  SpinLimiter limiter;
  limiter.observe(0, milliseconds(50), 2);
  EXPECT_FALSE(limiter.active());
  limiter.observe(2, milliseconds(50), 2); // 40 a second: neither busy nor quiet
  EXPECT_FALSE(limiter.active());
  limiter.observe(5, milliseconds(50), 2);
  EXPECT_TRUE(limiter.active());
  for (int i = 0; i < SpinLimiter::kQuietPeriods - 1; ++i)
    limiter.observe(0, milliseconds(50), 2);
  EXPECT_TRUE(limiter.active());
  limiter.observe(1, milliseconds(50), 2); // 20 a second: not quiet, so it starts to count again
  for (int i = 0; i < SpinLimiter::kQuietPeriods - 1; ++i)
    limiter.observe(0, milliseconds(50), 2);
  EXPECT_TRUE(limiter.active());
  limiter.observe(0, milliseconds(50), 2);
  EXPECT_FALSE(limiter.active());
}

TEST(SpinLimiter, OneThreadNeverSpins) {
  SpinLimiter limiter;
  limiter.observe(1000, milliseconds(50), 1);
  EXPECT_FALSE(limiter.active());
}

int32_t count_up(void *data, int, int64_t begin, int64_t end) {
  *static_cast<std::atomic<int64_t> *>(data) += end - begin;
  return 0;
}

TEST(SpinLimiter, TheTeamWorksWhileItIsActiveAndWhenItEndsSo) {
  std::atomic<int64_t> sum{0};
  for (int round = 0; round < 3; ++round) {
    SpinLimiter limiter;
    limiter.observe(100, milliseconds(50), 2);
    ASSERT_TRUE(limiter.active());
    for (int i = 0; i < 100; ++i)
      EXPECT_EQ(parallel_for(64, 1, 2, count_up, &sum), 0);
  }
  EXPECT_EQ(sum, 3 * 100 * 64);
}

} // namespace
} // namespace weft::runtime
