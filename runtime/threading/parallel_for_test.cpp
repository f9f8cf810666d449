#include "runtime/threading/parallel_for.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

namespace weft::runtime {
namespace {

struct Seen {
  std::vector<std::atomic<int>> times;
  std::atomic<int> ranges{0};
  std::atomic<bool> aligned{true};
  int64_t grain = 1;
  int64_t fail_at = -1;
};

int32_t body(void *data, int thread, int64_t begin, int64_t end) {
  Seen &seen = *static_cast<Seen *>(data);
  ++seen.ranges;
  if (begin % seen.grain != 0)
    seen.aligned = false;
  for (int64_t i = begin; i < end; ++i)
    ++seen.times[i];
  return seen.fail_at >= begin ? static_cast<int32_t>(100 + begin) : 0;
}

TEST(ParallelFor, CoversTheRangeOnceInAlignedPieces) {
  for (int64_t count : {0, 1, 7, 64, 1000})
    for (int64_t grain : {1, 3, 64, 5000})
      for (int threads : {1, 2, 3, 8}) {
        Seen seen{std::vector<std::atomic<int>>(count)};
        seen.grain = grain;
        EXPECT_EQ(parallel_for(count, grain, threads, body, &seen), 0);
        for (std::atomic<int> &times : seen.times)
          EXPECT_EQ(times, 1);
        EXPECT_TRUE(seen.aligned);
        // A thread that does not get to run delays the others by a part of its share.
        EXPECT_EQ(threads > 1 && (count + grain - 1) / grain > threads, seen.ranges > threads);
        EXPECT_LE(seen.ranges, (count + grain - 1) / grain);
      }
}

TEST(ParallelFor, TheLowestPiecesErrorWins) {
  for (int i = 0; i < 50; ++i) {
    Seen seen{std::vector<std::atomic<int>>(100)};
    seen.fail_at = 100;
    EXPECT_EQ(parallel_for(100, 1, 4, body, &seen), 100);
  }
}

TEST(DefaultThreads, ReadsTheEnvironment) {
  const char *before = std::getenv("WEFT_NUM_THREADS");
  std::string saved = before ? before : "";
  setenv("WEFT_NUM_THREADS", "3", 1);
  EXPECT_EQ(default_threads(), 3);
  for (const char *bad :
       {"0", "-1", "2x", "", "100000", "4294967298", "99999999999999999999"}) {
    setenv("WEFT_NUM_THREADS", bad, 1);
    EXPECT_EQ(threads_from_environment(), std::nullopt);
    EXPECT_GE(default_threads(), 1);
    EXPECT_LT(default_threads(), 100000);
  }
  if (before)
    setenv("WEFT_NUM_THREADS", saved.c_str(), 1);
  else
    unsetenv("WEFT_NUM_THREADS");
}

} // namespace
} // namespace weft::runtime
