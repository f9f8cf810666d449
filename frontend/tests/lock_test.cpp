// The recorder's lock: who has it has it alone, also while its reservation for one thread ends.
#include "frontend/recorder/record/lock.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace weft::recorder {
namespace {

constexpr int kLocks = 100;   // each is reserved for its first thread, and shared once
constexpr int kTurns = 2'000; // of a thread

// Counts under the lock, which it takes again, or gives up, in the middle of some turns.
void count(RecorderMutex &mutex, int64_t &total) {
  for (int turn = 0; turn < kTurns; ++turn) {
    std::lock_guard<RecorderMutex> lock(mutex);
    EXPECT_TRUE(RecorderMutex::held());
    ++total;
    if (turn % 16 == 0) {
      std::lock_guard<RecorderMutex> again(mutex);
      ++total;
    }
    if (turn % 64 == 0) {
      RecorderMutex::Pause pause(mutex);
      EXPECT_FALSE(RecorderMutex::held());
    }
  }
}
constexpr int64_t kCounts = kTurns + kTurns / 16;

TEST(RecorderMutex, ServesOneThread) {
  RecorderMutex mutex;
  int64_t total = 0;
  count(mutex, total);
  EXPECT_EQ(total, kCounts);
  EXPECT_FALSE(RecorderMutex::held());
}

TEST(RecorderMutex, IsSharedWhileItsFirstThreadGoesOn) {
  for (int i = 0; i < kLocks; ++i) {
    RecorderMutex mutex;
    int64_t total = 0;
    std::vector<std::thread> threads;
    for (int k = 0; k < 3; ++k)
      threads.emplace_back([&] { count(mutex, total); });
    for (std::thread &thread : threads)
      thread.join();
    ASSERT_EQ(total, 3 * kCounts) << "lock " << i;
  }
}

TEST(RecorderMutex, WaitsForItsFirstThreadToLeave) {
  for (int i = 0; i < kLocks; ++i) {
    RecorderMutex mutex;
    int64_t total = 0;
    std::thread other;
    {
      std::lock_guard<RecorderMutex> lock(mutex);
      other = std::thread([&] {
        std::lock_guard<RecorderMutex> lock(mutex);
        total *= 2;
      });
      for (int turn = 0; turn < kTurns; ++turn)
        ++total;
    }
    other.join();
    ASSERT_EQ(total, 2 * kTurns) << "lock " << i;
  }
}

TEST(RecorderMutex, OutlivesItsFirstThread) {
  for (int i = 0; i < kLocks; ++i) {
    RecorderMutex mutex;
    int64_t total = 0;
    for (int k = 0; k < 3; ++k)
      std::thread([&] { count(mutex, total); }).join();
    ASSERT_EQ(total, 3 * kCounts) << "lock " << i;
  }
}

} // namespace
} // namespace weft::recorder
