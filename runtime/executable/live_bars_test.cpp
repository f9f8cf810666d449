#include "runtime/executable/live_bars.h"

#include <gtest/gtest.h>

#include "runtime/core/maxima.h"

namespace weft::runtime {
namespace {

TEST(LiveBars, EachNumberIsABarOfEightHeights) {
  EXPECT_EQ(live_bars(std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}, 64), "▁▁▂▃▄▅▆▇█");
  // A height that is begun counts whole.
  EXPECT_EQ(live_bars(std::vector<int64_t>{875, 876, 999, 1000}, 64), "▇███");
  EXPECT_EQ(live_bars(std::vector<int64_t>{0, 0}, 64), "▁▁");
  EXPECT_EQ(live_bars({}, 64), "");
}

TEST(LiveBars, AColumnIsTheLargestOfItsPart) {
  EXPECT_EQ(live_bars(std::vector<int64_t>{1, 8, 1, 1, 4}, 2), "█▄");
  EXPECT_EQ(live_bars(std::vector<int64_t>{1, 1, 8, 1, 4, 1}, 3), "▁█▄");
  EXPECT_EQ(maxima(std::vector<int64_t>{1, 2, 3, 4, 5}, 2), (std::vector<int64_t>{2, 5}));
  EXPECT_EQ(maxima(std::vector<int64_t>{3, 1}, 9), (std::vector<int64_t>{3, 1}));
  // Every number is in a part, and the largest stays.
  std::vector<int64_t> row(1000);
  row[0] = 1, row[617] = 9, row[999] = 2;
  std::vector<int64_t> parts = maxima(row, 64);
  ASSERT_EQ(parts.size(), 64u);
  EXPECT_EQ(parts.front(), 1);
  EXPECT_EQ(parts[617 * 64 / 1000], 9);
  EXPECT_EQ(parts.back(), 2);
}

TEST(LiveBars, TheRangeNamesFirstMostAndLast) {
  EXPECT_EQ(live_range(std::vector<int64_t>{128, 512, 64}),
            "128 B at first, 512 B at most, 64 B at the end");
  EXPECT_EQ(live_range({}), "");
}

} // namespace
} // namespace weft::runtime
