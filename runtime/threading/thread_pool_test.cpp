#include "runtime/threading/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "runtime/threading/no_threads.h"
#include "runtime/threading/parallel_for.h"

namespace weft::runtime {
namespace {

template <typename F> void run(ThreadPool &pool, int threads, int tasks, F f) {
  pool.run(
      threads, tasks,
      [](void *data, int thread, int index) { (*static_cast<F *>(data))(thread, index); }, &f);
}

TEST(ThreadPool, RunsEachTaskOnceWhateverTheNumbers) {
  ThreadPool pool;
  for (int round = 0; round < 20; ++round)
    for (int threads : {2, 8, 1, 3, 2})
      for (int tasks : {0, 1, 2, 7, 100}) {
        std::vector<std::atomic<int>> times(tasks), under_way(threads);
        run(pool, threads, tasks, [&](int thread, int index) {
          ASSERT_LT(thread, threads);
          // A thread has one number, and a number one thread.
          EXPECT_EQ(under_way[thread].fetch_add(1), 0);
          ++times[index];
          under_way[thread].fetch_sub(1);
        });
        for (std::atomic<int> &count : times)
          EXPECT_EQ(count, 1);
      }
}

TEST(ThreadPool, TheCallerTakesOverWhatABusyThreadHasNotBegun) {
  ThreadPool pool;
  // Thread 1 holds one task until all others have run, its own among them.
  std::atomic<int> ended{0};
  std::atomic<bool> holds{false};
  run(pool, 2, 8, [&](int thread, int) {
    if (thread == 1 && !holds.exchange(true))
      while (ended != 7) {}
    else
      while (thread == 0 && !holds) {}
    ++ended;
  });
  EXPECT_EQ(ended, 8);
}

TEST(ThreadPool, TasksThatWaitForEachOtherAllBegin) {
  for (int threads : {2, 3, 8}) {
    ThreadPool pool;
    for (int round = 0; round < 100; ++round) {
      int shares = pool.reserve(threads);
      std::atomic<int> arrived{0};
      run(pool, shares, shares, [&](int, int) {
        ++arrived;
        while (arrived != shares)
          std::this_thread::yield();
      });
    }
  }
}

TEST(ThreadPool, TheSystemIsNotAskedAtEachRegionForWhatItRefused) {
  ThreadPool pool;
  ASSERT_EQ(pool.reserve(2), 2);
  {
    NoThreads none;
    EXPECT_EQ(pool.reserve(4), 1);
  }
  for (int i = 0; i < ThreadPool::kRefusedCalls; ++i)
    EXPECT_EQ(pool.reserve(4), 1);
  EXPECT_EQ(pool.reserve(4), 4);

  pool.stop();
  {
    NoThreads none;
    EXPECT_EQ(pool.reserve(4), 1);
  }
  pool.stop();
  EXPECT_EQ(pool.reserve(4), 4);
}

TEST(ThreadPool, ALateThreadTakesNothingOfARegionThatHasFewer) {
  ThreadPool pool;
  run(pool, 8, 8, [](int, int) {});
  // The eight are on their way back to sleep, or look for tasks.
  for (int round = 0; round < 1000; ++round)
    run(pool, 2, 6, [](int thread, int) { EXPECT_LT(thread, 2); });
}

TEST(ThreadPool, ATaskRunsARegionOfItsOwnOnItsThread) {
  EXPECT_FALSE(ThreadPool::in_task());
  ThreadPool pool;
  run(pool, 3, 6, [](int, int) {
    EXPECT_TRUE(ThreadPool::in_task());
    auto self = std::this_thread::get_id();
    parallel_for(
        100, 1, 4,
        [](void *data, int thread, int64_t, int64_t) {
          EXPECT_EQ(thread, 0);
          EXPECT_EQ(*static_cast<std::thread::id *>(data), std::this_thread::get_id());
          return int32_t{0};
        },
        &self);
  });
  EXPECT_FALSE(ThreadPool::in_task());
}

TEST(ThreadPool, EachCallingThreadHasItsOwn) {
  std::vector<std::thread> callers;
  for (int c = 0; c < 8; ++c)
    callers.emplace_back([] {
      for (int round = 0; round < 50; ++round) {
        int sum = 0;
        std::vector<int> parts(16);
        run(ThreadPool::of_this_thread(), 3, 16, [&](int, int i) { parts[i] = i; });
        for (int part : parts)
          sum += part;
        ASSERT_EQ(sum, 120);
      }
    });
  for (std::thread &caller : callers)
    caller.join();
}

} // namespace
} // namespace weft::runtime
