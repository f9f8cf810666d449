// Memory that runs give to those behind them.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/executor/executor_fixture.h"
#include "runtime/memory/limit_allocator.h"

namespace weft::runtime {
namespace {

constexpr int64_t kSize = OrderedMemory::kOrderedBytes / 8;
constexpr int64_t kBytes = kSize * 8;
constexpr int kRounds = 12; // fewer than are under way at most

struct OrderedTest : ExecutorTest {
  std::shared_ptr<ProgramExecutable> step = incrementer(memory, true, false, kSize);
  std::shared_ptr<Buffer> run(const std::shared_ptr<Buffer> &x) {
    return run_on(executor, x);
  }
  std::shared_ptr<Buffer> run_on(Executor &on, const std::shared_ptr<Buffer> &x) {
    Buffers outputs;
    EXPECT_TRUE(on.submit(step, {x}, outputs).ok());
    return outputs[0];
  }
  int64_t buffers_taken() const {
    return allocator->stats().allocations;
  }
};

TEST_F(OrderedTest, ACallerThatRunsAheadTakesTwoBuffers) {
  std::shared_ptr<Buffer> x = filled(memory, 0, kSize);
  int64_t before = buffers_taken();
  auto held = hold();
  for (int i = 0; i < kRounds; ++i)
    x = run(x);
  // Nothing has run, and what was freed is in use again.
  EXPECT_FALSE(x->is_written());
  EXPECT_EQ(buffers_taken(), before + 3); // two outputs, and the arena
  EXPECT_EQ(executor.stats().ordered_buffers, kRounds - 2);
  EXPECT_EQ(executor.stats().ordered_bytes, (kRounds - 2) * kBytes);
  open = true;
  EXPECT_EQ(*read(x), kRounds);
}

TEST_F(OrderedTest, WhatSomebodyHoldsIsNotTaken) {
  auto held = hold();
  Buffers all = {filled(memory, 0, kSize)};
  for (int i = 0; i < kRounds; ++i)
    all.push_back(run(all.back()));
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size());
  EXPECT_EQ(executor.stats().ordered_buffers, 0);
  open = true;
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(*read(all[i]), static_cast<int64_t>(i));
}

TEST_F(OrderedTest, WhatWaitsOnAnotherExecutorIsNotTaken) {
  Executor other(memory, 1);
  std::shared_ptr<Buffer> x = filled(memory, 0, kSize);
  auto held = hold();
  std::shared_ptr<Buffer> between = run(x);
  std::shared_ptr<Buffer> there = run_on(other, between);
  between.reset();
  std::shared_ptr<Buffer> next = run(x);
  EXPECT_EQ(executor.stats().ordered_buffers, 0);
  open = true;
  EXPECT_EQ(*read(there), 2);
  EXPECT_EQ(*read(next), 1);
}

TEST_F(OrderedTest, TheFreedMemoryIsReadBeforeItIsWritten) {
  std::shared_ptr<Buffer> x = filled(memory, 0, kSize), hundred = filled(memory, 100, kSize);
  auto held = hold();
  std::shared_ptr<Buffer> first = run(x);
  Buffer *memory_of_first = first.get();
  std::shared_ptr<Buffer> second = run(first);
  first.reset();
  std::shared_ptr<Buffer> third = run(hundred); // in the memory of `first`, which `second` reads
  EXPECT_EQ(third.get(), memory_of_first);
  open = true;
  EXPECT_EQ(*read(second), 2);
  EXPECT_EQ(*read(third), 101);
}

TEST_F(OrderedTest, AnErrorStaysWithWhatDependsOnIt) {
  std::shared_ptr<Buffer> bad = filled(memory, -1, kSize), good = filled(memory, 5, kSize);
  auto held = hold();
  std::shared_ptr<Buffer> lost = run(bad);
  std::shared_ptr<Buffer> after = run(lost);
  lost.reset();
  std::shared_ptr<Buffer> fine = run(good);
  EXPECT_EQ(executor.stats().ordered_buffers, 1);
  open = true;
  EXPECT_EQ(read(after).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(*read(fine), 6);
}

TEST_F(OrderedTest, SmallOutputsAndOtherMemoryAreTakenAnew) {
  auto small = incrementer(memory, true, false, 64);
  auto held = hold();
  std::shared_ptr<Buffer> x = filled(memory, 0);
  for (int i = 0; i < 4; ++i) {
    Buffers outputs;
    ASSERT_TRUE(executor.submit(small, {x}, outputs).ok());
    x = outputs[0];
  }
  std::shared_ptr<Buffer> large = filled(memory, 0, kSize);
  run(large);
  executor.set_memory(Memory::create(std::make_shared<SystemAllocator>()));
  std::shared_ptr<Buffer> elsewhere = run(large);
  EXPECT_NE(elsewhere->memory(), memory);
  EXPECT_EQ(executor.stats().ordered_buffers, 0);
  open = true;
  EXPECT_EQ(*read(x), 4);
  EXPECT_EQ(*read(elsewhere), 1);
}

// A start that fails after it found memory leaves what is under way as it was.
TEST(OrderedFaults, AStartThatFailsGivesItBack) {
  auto limit = std::make_shared<LimitAllocator>(std::make_shared<SystemAllocator>(), 5 * kBytes);
  auto memory = Memory::create(limit);
  Executor executor(memory, 2);
  auto step = incrementer(memory, true, false, kSize);
  std::atomic<bool> open = false;
  auto held = executor.submit([&](const RunContext &) {
    while (!open)
      std::this_thread::yield();
    return absl::OkStatus();
  });
  std::shared_ptr<Buffer> x = filled(memory, 1, kSize);
  Buffers first, second, third;
  ASSERT_TRUE(executor.start(step, {x}, first).ok());
  ASSERT_TRUE(executor.start(step, {first[0]}, second).ok());
  first.clear();
  // Input, two outputs and an arena leave room for one buffer; the arena of this program has three.
  Program program;
  program.inputs = {{"x", DType::kInt64, {kSize}, kBytes, false, false}};
  program.outputs = {{"y", DType::kInt64, {kSize}, kBytes, -1, -1, -1}};
  program.buffers = {{BufferKind::kInput, 0, 0, kBytes},
                     {BufferKind::kArena, -1, 0, 3 * kBytes},
                     {BufferKind::kOutput, 0, 0, kBytes}};
  program.arena_bytes = 3 * kBytes;
  program.symbols = {"increment"};
  program.instructions = {Launch{0, -1, {0, 1}, -1, kSize, 1, false, -1}, Copy{1, 2, kBytes, -1}};
  auto large = ProgramExecutable::create(
                   program, [](std::string_view) { return increment; }, nullptr, memory)
                   .value();
  EXPECT_TRUE(absl::IsResourceExhausted(executor.start(large, {x}, third).status()));
  EXPECT_TRUE(third.empty());
  open = true;
  ASSERT_TRUE(second[0]->wait().ok());
  EXPECT_EQ(last(second[0]), 3);
  executor.synchronize();
  EXPECT_EQ(executor.stats().ordered_buffers, 1);
}

TEST_F(OrderedTest, EightThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::shared_ptr<Buffer> x = filled(memory, t, kSize);
      for (int i = 0; i < 40; ++i) {
        x = run(x);
        if (i % 8 == t)
          EXPECT_EQ(*read(x), t + i + 1);
      }
      EXPECT_EQ(*read(x), t + 40);
    });
  for (std::thread &thread : threads)
    thread.join();
  executor.synchronize();
  executor.trim();
  EXPECT_EQ(allocator->stats().live_bytes, 0);
}

} // namespace
} // namespace weft::runtime
