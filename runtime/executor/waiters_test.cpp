// Executors whose waiting threads run what is queued, and how long threads spin before they sleep.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "runtime/core/spin.h"
#include "runtime/executor/executor_fixture.h"
#include "runtime/threading/parallel_for.h"
#include "runtime/threading/thread_pool.h"

namespace weft::runtime {
namespace {

struct WaitersRun : ExecutorTest {
  Executor executor{memory, 2, "", Waiters::kRun};
  // The thread that ran the work.
  std::shared_ptr<const Event> note(std::thread::id &where) {
    return executor.submit([&where](const RunContext &) {
      where = std::this_thread::get_id();
      return absl::OkStatus();
    });
  }
  // The executor's thread is inside an item until the gate opens.
  std::shared_ptr<const Event> hold() {
    auto inside = std::make_shared<std::atomic<bool>>(false);
    auto held = executor.submit([this, inside](const RunContext &) {
      *inside = true;
      while (!open)
        std::this_thread::yield();
      return absl::OkStatus();
    });
    while (!*inside)
      std::this_thread::yield();
    return held;
  }
};

TEST_F(WaitersRun, WhatIsWaitedForAtOnceRunsOnTheCallersThread) {
  std::thread::id where;
  auto work = [&where](const RunContext &context) {
    EXPECT_EQ(context.threads, 2);
    where = std::this_thread::get_id();
    return absl::OkStatus();
  };
  // The executor's own thread looks at the line before it sleeps, as when it has just started, and
  // may find there what these runs put into it.
  auto comes_true = [](const auto &attempt) {
    for (int i = 0; i < 1000; ++i)
      if (attempt())
        return true;
    return false;
  };
  EXPECT_TRUE(comes_true([&] {
    EXPECT_TRUE(executor.run(work).ok());
    return where == std::this_thread::get_id();
  }));
  EXPECT_EQ(executor.run([](const RunContext &) { return absl::InternalError("no"); }).message(),
            "no");

  // A program, with the executor's threads and arena.
  auto step = incrementer(memory, true, false, 100000);
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(comes_true([&] {
      Buffers outputs;
      auto started = executor.start(step, {filled(memory, i, 100000)}, outputs);
      EXPECT_TRUE(started.ok());
      started->finish(/*waits=*/true);
      bool ran_here = outputs[0]->is_idle();
      EXPECT_TRUE(outputs[0]->wait().ok());
      EXPECT_EQ(last(outputs[0]), i + 1);
      return ran_here;
    }));
  // Executors whose waiters sleep run it on their own thread.
  ASSERT_TRUE(ExecutorTest::executor.run(work).ok());
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST_F(WaitersRun, WhoWaitedAtOnceForTheLastRunsRunsTheNextOnes) {
  auto step = incrementer(memory, true, false, 100000);
  auto start = [&](Buffers &outputs) {
    auto started = executor.start(step, {filled(memory, 1, 100000)}, outputs);
    EXPECT_TRUE(started.ok());
    return *std::move(started);
  };
  // Nobody is woken before finish(), so that the one who waits runs it.
  for (uint32_t i = 0; i < kWaitedAtOnce; ++i) {
    Buffers outputs;
    auto started = start(outputs);
    EXPECT_FALSE(outputs[0]->is_idle());
    EXPECT_EQ(*read(outputs[0]), 2);
    started.finish();
  }
  for (uint32_t i = 1; i < kTrialRuns; ++i) {
    Buffers outputs;
    start(outputs).finish();
    EXPECT_TRUE(outputs[0]->is_idle());
    EXPECT_EQ(last(outputs[0]), 2);
  }
  // Not where somebody has the turn: that may take long, and what comes then may be awaited there.
  auto held = hold();
  Buffers outputs;
  start(outputs).finish();
  EXPECT_FALSE(outputs[0]->is_idle());
  open = true;
  EXPECT_EQ(*read(outputs[0]), 2);
  EXPECT_TRUE(held->wait().ok());
}

TEST_F(WaitersRun, NobodyRunsBesideWhoHasTheTurn) {
  auto held = hold();
  std::thread::id first, second;
  auto one = note(first);
  std::thread waiter([&] { EXPECT_TRUE(note(second)->wait().ok()); });
  EXPECT_FALSE(one->done());
  open = true;
  waiter.join();
  // The line was kept: what came first has ended.
  EXPECT_TRUE(one->done());
  EXPECT_TRUE(held->done());
}

TEST_F(WaitersRun, WhatIsLeftInTheLineRunsWithoutAWaiter) {
  for (int i = 0; i < 200; ++i) {
    std::atomic<bool> others_ran{false};
    std::shared_ptr<const Event> others;
    // Queued while this thread has the turn, when the executor's thread may look in vain.
    absl::Status status = executor.run([&](const RunContext &) {
      std::thread([&] {
        others = executor.submit([&](const RunContext &) {
          others_ran = true;
          return absl::OkStatus();
        });
      }).join();
      return absl::OkStatus();
    });
    ASSERT_TRUE(status.ok());
    while (!others_ran)
      std::this_thread::yield();
    ASSERT_TRUE(others->wait().ok());
  }
}

TEST_F(WaitersRun, ManyThreadsShareOnePool) {
  // Tasks of the pool's threads, whoever has the turn.
  std::set<std::thread::id> workers, callers;
  auto work = [&](const RunContext &context) {
    struct Ids {
      std::mutex mutex;
      std::set<std::thread::id> found;
      std::atomic<int> arrived{0};
    } ids;
    ThreadPool::of_this_thread().run(
        context.threads, context.threads,
        [](void *data, int, int) {
          auto &ids = *static_cast<Ids *>(data);
          {
            std::lock_guard lock(ids.mutex);
            ids.found.insert(std::this_thread::get_id());
          }
          // Each on a thread of its own.
          for (++ids.arrived; ids.arrived < 2;)
            std::this_thread::yield();
        },
        &ids);
    ids.found.erase(std::this_thread::get_id());
    workers.insert(ids.found.begin(), ids.found.end()); // one at a time
    callers.insert(std::this_thread::get_id());
    return absl::OkStatus();
  };
  for (int i = 0; i < 4; ++i)
    std::thread([&] { EXPECT_TRUE(executor.run(work).ok()); }).join();
  EXPECT_TRUE(executor.submit(work)->wait().ok());
  EXPECT_EQ(workers.size(), 1u);
}

TEST_F(WaitersRun, EightThreadsThatReadWhatTheyStart) {
  auto parallel = incrementer(memory, true, false), large = incrementer(memory, true, true, 50000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::shared_ptr<Buffer> x = filled(memory, t, t % 2 ? 64 : 50000);
      for (int i = 0; i < 100; ++i) {
        Buffers outputs;
        auto started = executor.start(t % 2 ? parallel : large, {x}, outputs);
        ASSERT_TRUE(started.ok());
        started->finish(/*waits=*/i % 3 == 0);
        x = outputs[0];
        if (i % 3 == 1) {
          ASSERT_TRUE(x->wait().ok());
          EXPECT_EQ(last(x), t + i + 1);
        }
      }
      EXPECT_TRUE(x->wait().ok());
      EXPECT_EQ(last(x), t + 100);
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(WaitersRun, ARunThatWaitsForAnotherExecutorTakesNoneOfItsTurns) {
  Executor other(memory, 1, "", Waiters::kRun);
  std::thread::id where;
  absl::Status status = executor.run([&](const RunContext &) {
    return other
        .submit([&](const RunContext &) {
          where = std::this_thread::get_id();
          return absl::OkStatus();
        })
        ->wait();
  });
  EXPECT_TRUE(status.ok());
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST_F(WaitersRun, StopsWithAWaiterInside) {
  for (int i = 0; i < 50; ++i) {
    Executor own(memory, 2, "", Waiters::kRun);
    std::atomic<bool> inside{false}, ran{false};
    std::thread waiter([&] {
      EXPECT_TRUE(own.run([&](const RunContext &) {
                       inside = true;
                       std::this_thread::yield();
                       return absl::OkStatus();
                     })
                      .ok());
    });
    while (!inside)
      std::this_thread::yield();
    own.submit([&](const RunContext &) {
      ran = true;
      return absl::OkStatus();
    });
    own.stop();
    EXPECT_TRUE(ran);
    waiter.join();
  }
}

using SpinTime = SpinHistory::Time;
using Microseconds = std::chrono::microseconds;

TEST(SpinHistory, VainSpinsBecomeRare) {
  SpinHistory history;
  for (uint32_t i = 0; i < SpinHistory::kVain; ++i) {
    EXPECT_EQ(history.patience(SpinTime()), kSpin);
    history.ended(false);
  }
  constexpr Microseconds kApart(10);
  int64_t waits = 0, spins = 0;
  for (SpinTime now; now < SpinTime(10 * SpinHistory::kPeriod); now += kApart, ++waits) {
    spins += history.patience(now) > Microseconds(0);
    history.ended(false);
  }
  EXPECT_EQ(spins * (SpinHistory::kPeriod / SpinHistory::kTrial), waits);
  // One that ends in time is enough.
  history.ended(true);
  EXPECT_EQ(history.patience(SpinTime(SpinHistory::kPeriod - kApart)), kSpin);
}

// Two threads that hand work to each other: each works for `work`, wakes the other and waits. How
// many of the last 1,000 waits were slept through, where they began with spins in vain.
int sleeps_of_a_pair(Microseconds work, Microseconds wake_up) {
  struct Side {
    SpinHistory history = {};
    SpinTime since = {}; // it waits
  } sides[2];
  for (Side &side : sides)
    for (uint32_t i = 0; i < SpinHistory::kVain; ++i)
      side.history.ended(false);
  constexpr int kHandovers = 20'000, kLast = 1'000;
  SpinTime now(SpinHistory::kTrial);
  int sleeps = 0;
  for (int i = 0; i < kHandovers; ++i) {
    Side &works = sides[i % 2], &waits = sides[1 - i % 2];
    now += work;
    bool in_time = now - waits.since <= waits.history.patience(waits.since);
    waits.history.ended(in_time);
    works.since = now;
    if (in_time)
      continue;
    now += wake_up;
    sleeps += i >= kHandovers - kLast;
  }
  return sleeps;
}

TEST(SpinHistory, TwoThreadsThatBothSleepFindEachOther) {
  EXPECT_EQ(sleeps_of_a_pair(kSpin / 2, kSpin / 5), 0);
  EXPECT_EQ(sleeps_of_a_pair(kSpin / 2, kSpin), 0);
  EXPECT_EQ(sleeps_of_a_pair(kSpin / 2, 2 * kSpin), 0);
  // Where no spin can be long enough they go on to sleep.
  EXPECT_EQ(sleeps_of_a_pair(5 * kSpin, kSpin), 1'000);
}

} // namespace
} // namespace weft::runtime
