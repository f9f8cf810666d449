#include "runtime/executor/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/core/spin.h"
#include "runtime/executable/forwarding_executable.h"
#include "runtime/executable/program_executable.h"
#include "runtime/executor/device.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/memory/limit_allocator.h"
#include "runtime/memory/memory.h"
#include "runtime/memory/system_allocator.h"
#include "runtime/memory/tracing_allocator.h"
#include "runtime/threading/parallel_for.h"
#include "runtime/threading/thread_pool.h"

namespace weft::runtime {
namespace {

using Buffers = std::vector<std::shared_ptr<Buffer>>;

// y[i] = x[i] + 1, through the arena; a negative x[0] is an error.
int32_t increment(const weft_kernel_env *, void *const *buffers, const int64_t *, const double *,
                  int64_t begin, int64_t end) {
  const int64_t *x = static_cast<const int64_t *>(buffers[0]);
  for (int64_t i = begin; i < end; ++i) {
    if (x[i] < 0)
      return WEFT_KERNEL_INDEX_OUT_OF_RANGE;
    static_cast<int64_t *>(buffers[1])[i] = x[i] + 1;
  }
  return WEFT_KERNEL_OK;
}

// `parallel` programs go to the executor's thread, the others may run where they are called.
std::shared_ptr<ProgramExecutable> incrementer(const std::shared_ptr<Memory> &memory, bool parallel,
                                               bool donates, int64_t size = 64) {
  Program program;
  int64_t bytes = size * 8;
  program.inputs = {{"x", DType::kInt64, {size}, bytes, donates, false}};
  program.outputs = {{"y", DType::kInt64, {size}, bytes, donates ? 0 : -1, -1, -1}};
  program.buffers = {{BufferKind::kInput, 0, 0, bytes},
                     {BufferKind::kArena, -1, 0, bytes},
                     {BufferKind::kOutput, 0, 0, bytes}};
  program.arena_bytes = bytes;
  program.symbols = {"increment"};
  program.locations = {"loop.cpp:9"};
  program.instructions = {Launch{0, -1, {0, 1}, -1, size, 1, !parallel, 0}, Copy{1, 2, bytes, -1}};
  return ProgramExecutable::create(
             program, [](std::string_view) { return increment; }, nullptr, memory)
      .value();
}

std::shared_ptr<Buffer> filled(const std::shared_ptr<Memory> &memory, int64_t value,
                               int64_t size = 64) {
  std::shared_ptr<Buffer> buffer = memory->allocate(size * 8, "test").value();
  for (int64_t i = 0; i < size; ++i)
    static_cast<int64_t *>(buffer->data())[i] = value;
  return buffer;
}

int64_t last(const std::shared_ptr<Buffer> &buffer) {
  return static_cast<int64_t *>(buffer->data())[buffer->bytes() / 8 - 1];
}

struct ExecutorTest : ::testing::Test {
  std::shared_ptr<TracingAllocator> allocator =
      std::make_shared<TracingAllocator>(std::make_shared<SystemAllocator>());
  std::shared_ptr<Memory> memory = Memory::create(allocator);
  Executor executor{memory, 2};

  // Holds the executor until the gate is opened.
  std::atomic<bool> open{false};
  std::shared_ptr<const Event> hold() {
    return executor.submit([this](const RunContext &) {
      while (!open)
        std::this_thread::yield();
      return absl::OkStatus();
    });
  }
  // Reads a value as a user would.
  absl::StatusOr<int64_t> read(const std::shared_ptr<Buffer> &buffer) {
    if (absl::Status status = buffer->wait(); !status.ok())
      return status;
    return last(buffer);
  }
};

TEST_F(ExecutorTest, ChainsRunInOrderThroughOneArena) {
  auto step = incrementer(memory, true, false);
  std::shared_ptr<Buffer> x = filled(memory, 0);
  for (int i = 0; i < 200; ++i) {
    Buffers outputs;
    ASSERT_TRUE(executor.submit(step, {x}, outputs).ok());
    x = outputs[0];
  }
  EXPECT_EQ(*read(x), 200);
  EXPECT_EQ(executor.stats().submitted, 200);
  executor.synchronize();
  x.reset();
  EXPECT_EQ(allocator->stats().live_bytes, 512); // the shared arena
  // Bounded run-ahead: the queue's inputs and outputs, not two hundred of them.
  EXPECT_LE(allocator->stats().peak_bytes, (kMaxInFlight + 4) * 512);
  executor.trim();
  EXPECT_EQ(allocator->stats().live_bytes, 0);
}

TEST_F(ExecutorTest, DonatedInputsBecomeOutputs) {
  auto step = incrementer(memory, true, true);
  std::shared_ptr<Buffer> x = filled(memory, 5);
  int64_t before = allocator->stats().allocations;
  for (int i = 0; i < 10; ++i) {
    Buffers outputs;
    ASSERT_TRUE(executor.submit(step, {x}, outputs).ok());
    EXPECT_EQ(outputs[0], x);
  }
  EXPECT_EQ(*read(x), 15);
  EXPECT_EQ(allocator->stats().allocations, before + 1); // the arena
}

TEST_F(ExecutorTest, SmallSerialProgramsRunOnTheCallersThread) {
  auto step = incrementer(memory, false, false);
  ASSERT_TRUE(step->is_serial());
  Buffers outputs;
  ASSERT_TRUE(executor.submit(step, {filled(memory, 1)}, outputs).ok());
  EXPECT_TRUE(outputs[0]->is_idle());
  EXPECT_EQ(last(outputs[0]), 2);
  EXPECT_EQ(executor.stats().inline_runs, 1);
  // Not when they depend on what is under way.
  auto held = hold();
  Buffers first, second;
  ASSERT_TRUE(executor.submit(incrementer(memory, true, false), {outputs[0]}, first).ok());
  ASSERT_TRUE(executor.submit(step, {first[0]}, second).ok());
  EXPECT_FALSE(second[0]->is_written());
  EXPECT_EQ(executor.stats().inline_runs, 1);
  // A donated input that is still read waits too.
  Buffers third;
  ASSERT_TRUE(executor.submit(incrementer(memory, false, true), {outputs[0]}, third).ok());
  EXPECT_FALSE(outputs[0]->is_written());
  open = true;
  EXPECT_EQ(*read(second[0]), 4);
  EXPECT_EQ(*read(third[0]), 3);
  // Large ones overlap with their caller.
  Buffers large;
  ASSERT_TRUE(
      executor.submit(incrementer(memory, false, false, 100000), {filled(memory, 1, 100000)}, large)
          .ok());
  EXPECT_EQ(*read(large[0]), 2);
  EXPECT_EQ(executor.stats().inline_runs, 1);
}

TEST_F(ExecutorTest, SmallProgramsOfSeveralCallersRunOnTheirThreads) {
  auto step = incrementer(memory, /*parallel=*/true, false);
  ASSERT_FALSE(step->is_serial());
  ASSERT_TRUE(step->is_serial_with_one_thread());
  auto held = hold();
  // The caller whose work is under way overlaps with it.
  Buffers mine;
  ASSERT_TRUE(executor.submit(step, {filled(memory, 1)}, mine).ok());
  EXPECT_FALSE(mine[0]->is_written());
  std::thread([&] {
    Buffers others, waiting, large;
    ASSERT_TRUE(executor.submit(step, {filled(memory, 2)}, others).ok());
    EXPECT_TRUE(others[0]->is_idle());
    EXPECT_EQ(last(others[0]), 3);
    EXPECT_EQ(executor.stats().inline_runs, 1);
    // Not what depends on work under way, nor large ones.
    ASSERT_TRUE(executor.submit(step, {mine[0]}, waiting).ok());
    ASSERT_TRUE(
        executor
            .submit(incrementer(memory, true, false, 100000), {filled(memory, 1, 100000)}, large)
            .ok());
    EXPECT_FALSE(waiting[0]->is_written());
    EXPECT_FALSE(large[0]->is_written());
    open = true;
    EXPECT_EQ(*read(waiting[0]), 3);
    EXPECT_EQ(*read(large[0]), 2);
  }).join();
  EXPECT_EQ(*read(mine[0]), 2);
  EXPECT_EQ(executor.stats().inline_runs, 1);
}

TEST_F(ExecutorTest, FailuresPoisonWhatDependsOnThem) {
  for (bool parallel : {true, false}) {
    auto step = incrementer(memory, parallel, false);
    auto donating = incrementer(memory, parallel, true);
    std::shared_ptr<Buffer> bad = filled(memory, -1);
    std::shared_ptr<Buffer> good = filled(memory, 1);
    Buffers lost, after, fine;
    ASSERT_TRUE(executor.submit(step, {bad}, lost).ok());
    ASSERT_TRUE(executor.submit(step, {lost[0]}, after).ok());
    ASSERT_TRUE(executor.submit(step, {good}, fine).ok());
    absl::Status status = read(lost[0]).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(status.message().substr(0, 12), "loop.cpp:9: ");
    EXPECT_EQ(read(after[0]).status(), status);
    EXPECT_EQ(*read(fine[0]), 2);
    EXPECT_EQ(*read(bad), -1); // an input that is only read stays
    Buffers donated;
    ASSERT_TRUE(executor.submit(donating, {bad}, donated).ok());
    EXPECT_FALSE(read(bad).ok());
    EXPECT_FALSE(read(donated[0]).ok());
    // A whole write heals.
    Buffers again = {donated[0]};
    ASSERT_TRUE(executor.submit(step, {good}, again).ok());
    EXPECT_EQ(*read(again[0]), 2);
  }
}

// A run that ends by an exception, as one of a user's backend may.
class Throws : public ForwardingExecutable<> {
public:
  using ForwardingExecutable::ForwardingExecutable;
  absl::Status run(const RunContext &, RunResources &, std::span<Buffer *const>,
                   std::span<Buffer *const>) override {
    throw std::runtime_error("out of luck");
  }
};

TEST_F(ExecutorTest, AnExceptionIsAFailureOfTheRun) {
  for (bool parallel : {true, false}) { // on the executor's thread and on the caller's
    auto throws = std::make_shared<Throws>(incrementer(memory, parallel, false));
    Buffers outputs;
    ASSERT_TRUE(executor.submit(throws, {filled(memory, 1)}, outputs).ok());
    absl::Status status = outputs[0]->wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(status.message(), "it threw an exception: out of luck");
  }
}

TEST_F(ExecutorTest, APoisonedInputIsSeenEvenWhenItIsWrittenAgainLater) {
  auto step = incrementer(memory, true, false);
  auto held = hold();
  std::shared_ptr<Buffer> bad = filled(memory, -1), good = filled(memory, 3);
  Buffers lost, reader, writer;
  ASSERT_TRUE(executor.submit(step, {bad}, lost).ok());
  ASSERT_TRUE(executor.submit(step, {lost[0]}, reader).ok());
  writer = {lost[0]};
  ASSERT_TRUE(executor.submit(step, {good}, writer).ok());
  open = true;
  EXPECT_FALSE(read(reader[0]).ok());
  EXPECT_EQ(*read(writer[0]), 4);
}

TEST_F(ExecutorTest, WrongBindingsAreReturnedAtOnce) {
  auto step = incrementer(memory, true, false);
  Buffers outputs;
  EXPECT_EQ(executor.submit(step, {}, outputs).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(executor.submit(step, {filled(memory, 0, 3)}, outputs).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(outputs.empty());
}

// Fails at the nth allocation.
struct FailingAllocator : SystemAllocator {
  std::atomic<int> left{1 << 30};
  absl::StatusOr<void *> allocate(int64_t bytes, int64_t alignment) override {
    if (left.fetch_sub(1) <= 0)
      return absl::ResourceExhaustedError("none left for the test");
    return SystemAllocator::allocate(bytes, alignment);
  }
};

TEST(ExecutorFaults, EachAllocationInTurn) {
  for (bool parallel : {true, false}) {
    bool succeeded = false;
    for (int n = 0; !succeeded; ++n) {
      ASSERT_LT(n, 10);
      auto allocator = std::make_shared<FailingAllocator>();
      {
        auto memory = Memory::create(allocator);
        Executor executor(memory, 2);
        auto step = incrementer(memory, parallel, false);
        std::shared_ptr<Buffer> x = filled(memory, 1);
        Buffers outputs;
        allocator->left = n;
        absl::Status status = executor.submit(step, {x}, outputs);
        allocator->left = 1 << 30;
        succeeded = status.ok();
        if (!succeeded) {
          EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
          EXPECT_NE(status.message().find("out of memory: "), absl::string_view::npos) << status;
          EXPECT_TRUE(outputs.empty());
          EXPECT_TRUE(x->is_idle());
          EXPECT_EQ(last(x), 1);
          ASSERT_TRUE(executor.submit(step, {x}, outputs).ok()); // a retry is legal
        }
        ASSERT_TRUE(outputs[0]->wait().ok());
        EXPECT_EQ(last(outputs[0]), 2);
      }
      EXPECT_EQ(allocator->stats().live_bytes, 0);
    }
  }
}

TEST(ExecutorFaults, WaitsForMemoryThatIsUnderWay) {
  // Room for four buffers of 512 bytes: input, output, arena and one more.
  auto memory = Memory::create(
      std::make_shared<LimitAllocator>(std::make_shared<SystemAllocator>(), 4 * 512));
  Executor executor(memory, 2);
  auto step = incrementer(memory, true, false);
  std::shared_ptr<Buffer> x = filled(memory, 0);
  for (int i = 0; i < 100; ++i) {
    Buffers outputs;
    absl::Status status = executor.submit(step, {x}, outputs);
    ASSERT_TRUE(status.ok()) << i << ": " << status;
    x = outputs[0];
  }
  ASSERT_TRUE(x->wait().ok());
  EXPECT_EQ(last(x), 100);
}

TEST_F(ExecutorTest, EightThreadsAtOnce) {
  auto parallel = incrementer(memory, true, false), serial = incrementer(memory, false, false),
       donating = incrementer(memory, true, true);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::shared_ptr<Buffer> x = filled(memory, t);
      for (int i = 0; i < 60; ++i) {
        Buffers outputs;
        auto &step = i % 3 == 0 ? parallel : (i % 3 == 1 ? serial : donating);
        absl::Status status = executor.submit(step, {x}, outputs);
        EXPECT_TRUE(status.ok()) << status;
        x = outputs[0];
      }
      EXPECT_TRUE(x->wait().ok());
      EXPECT_EQ(last(x), t + 60);
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(ExecutorTest, WorksAfterItWasStopped) {
  auto step = incrementer(memory, true, false);
  Buffers first, second;
  ASSERT_TRUE(executor.submit(step, {filled(memory, 1)}, first).ok());
  executor.stop();
  ASSERT_TRUE(executor.submit(step, {first[0]}, second).ok());
  EXPECT_EQ(*read(second[0]), 3);
  executor.synchronize();
}

TEST_F(ExecutorTest, WhoWaitsSpinsOnlyWhereTheTeamLeavesAProcessor) {
  int processors = available_processors();
  executor.set_threads(processors);
  int looks = 0;
  EXPECT_FALSE(spin_until([&] { return ++looks > 1; }));
  EXPECT_EQ(looks, 1); // another look would have succeeded
  auto step = incrementer(memory, true, false);
  std::shared_ptr<Buffer> x = filled(memory, 0);
  for (int i = 0; i < 50; ++i) {
    Buffers outputs;
    ASSERT_TRUE(executor.submit(step, {x}, outputs).ok());
    x = outputs[0];
    ASSERT_EQ(*read(x), i + 1);
  }
  if (processors == 1)
    return;
  executor.set_threads(processors - 1);
  looks = 0;
  EXPECT_TRUE(spin_until([&] { return ++looks > 1; }));
}

// Executors whose waiting threads run what is queued.
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
  ASSERT_TRUE(executor.run(work).ok());
  EXPECT_EQ(where, std::this_thread::get_id());
  EXPECT_EQ(executor.run([](const RunContext &) { return absl::InternalError("no"); }).message(),
            "no");

  // A program, with the executor's threads and arena.
  auto step = incrementer(memory, true, false, 100000);
  for (int i = 0; i < 3; ++i) {
    Buffers outputs;
    auto started = executor.start(step, {filled(memory, i, 100000)}, outputs);
    ASSERT_TRUE(started.ok());
    started->finish(/*waits=*/true);
    EXPECT_TRUE(outputs[0]->is_idle());
    EXPECT_EQ(last(outputs[0]), i + 1);
  }
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

TEST_F(ExecutorTest, AliasedOutputsAreTheBuffersThemselves) {
  Program program;
  program.inputs = {{"x", DType::kInt64, {64}, 512, false, false}};
  program.outputs = {{"a", DType::kInt64, {64}, 512, -1, 0, -1},
                     {"b", DType::kInt64, {64}, 512, -1, -1, -1},
                     {"c", DType::kInt64, {8, 8}, 512, -1, -1, 1}};
  program.buffers = {{BufferKind::kInput, 0, 0, 512}, {BufferKind::kOutput, 1, 0, 512}};
  program.instructions = {Copy{0, 1, 512, -1}};
  auto copy = ProgramExecutable::create(program, nullptr, nullptr, memory).value();
  std::shared_ptr<Buffer> x = filled(memory, 9);
  Buffers outputs;
  ASSERT_TRUE(executor.submit(copy, {x}, outputs).ok());
  EXPECT_EQ(outputs[0], x);
  EXPECT_EQ(outputs[2], outputs[1]);
  EXPECT_EQ(*read(outputs[2]), 9);
}

TEST(Device, TheUsersAllocatorSeesEveryByte) {
  Device &device = cpu_device();
  auto tracing = std::make_shared<TracingAllocator>(std::make_shared<SystemAllocator>());
  device.set_allocator(tracing);
  {
    auto step = incrementer(device.memory(), true, false);
    std::shared_ptr<Buffer> x = filled(device.memory(), 1);
    Buffers outputs;
    ASSERT_TRUE(device.executor().submit(step, {x}, outputs).ok());
    ASSERT_TRUE(outputs[0]->wait().ok());
    EXPECT_EQ(last(outputs[0]), 2);
    device.executor().synchronize();
    EXPECT_EQ(tracing->stats().live_bytes, 3 * 512); // input, output, arena
  }
  device.set_allocator(nullptr);
  EXPECT_EQ(tracing->stats().live_bytes, 0);
  EXPECT_EQ(device.executor().threads() >= 1, true);
}

TEST(Device, KindsThatCannotBeAreRefused) {
  auto kind = [](const char *name, int count) {
    DeviceKind kind;
    kind.name = name;
    kind.count = count;
    kind.allocator = [](int) {
      return std::make_shared<SystemAllocator>();
    };
    return kind;
  };
  absl::Status colon = register_device_kind(kind("with:colon", 1));
  EXPECT_EQ(colon.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(colon.message()).find("'with:colon' must have a name without ':'"),
            std::string::npos)
      << colon;
  absl::Status negative = register_device_kind(kind("negative", -3));
  EXPECT_EQ(negative.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(negative.message()).find("'negative' has -3 devices"), std::string::npos)
      << negative;
}

TEST(Device, FailuresOfAKindNameTheDevice) {
  DeviceKind kind;
  kind.name = "broken";
  kind.count = 1;
  kind.allocator = [](int) {
    return std::shared_ptr<Allocator>();
  };
  kind.to_device = [](int, void *, const void *, int64_t) {
    return absl::InternalError("out of luck");
  };
  kind.to_host = [](int, void *, const void *, int64_t) {
    return absl::InternalError("out of luck");
  };
  ASSERT_TRUE(register_device_kind(kind).ok());
  Device &broken = device(*find_device("broken"));
  absl::Status memory = broken.memory()->allocate(64, "test").status();
  EXPECT_EQ(memory.code(), absl::StatusCode::kInternal);
  EXPECT_NE(std::string(memory.message()).find("DeviceKind::allocator gave null for broken:0"),
            std::string::npos)
      << memory;
  int value = 0, other = 0;
  EXPECT_EQ(broken.write(&value, &other, 4).message(), "copying to broken:0: out of luck");
  EXPECT_EQ(broken.read(&value, &other, 4).message(), "copying from broken:0: out of luck");
}

} // namespace
} // namespace weft::runtime
