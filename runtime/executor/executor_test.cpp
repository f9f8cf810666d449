#include "runtime/executor/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/core/spin.h"
#include "runtime/executable/forwarding_executable.h"
#include "runtime/executor/device.h"
#include "runtime/executor/executor_fixture.h"
#include "runtime/memory/limit_allocator.h"
#include "runtime/threading/parallel_for.h"

namespace weft::runtime {
namespace {

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

// acquire() of a user's backend.
class Acquires : public ForwardingExecutable<> {
public:
  Acquires(std::shared_ptr<Executable> target, bool throws)
      : ForwardingExecutable(std::move(target)), throws_(throws) {}
  absl::StatusOr<std::unique_ptr<RunResources>> acquire(const RunContext &) override {
    if (throws_)
      throw std::runtime_error("out of luck");
    return nullptr;
  }

private:
  bool throws_;
};

TEST_F(ExecutorTest, AnAcquireThatGivesNothingIsAFailure) {
  for (auto [throws, text] :
       {std::pair(false, "acquire() of the executable gave null and no error"),
        std::pair(true, "acquire() of the executable threw an exception: out of luck")}) {
    auto acquires = std::make_shared<Acquires>(incrementer(memory, true, false), throws);
    Buffers outputs;
    EXPECT_EQ(executor.submit(acquires, {filled(memory, 1)}, outputs), absl::InternalError(text));
    std::shared_ptr<Buffer> x = filled(memory, 1), y = filled(memory, 0);
    Buffer *in = x.get(), *out = y.get();
    EXPECT_EQ(acquires->acquire_and_run({memory, 1}, {&in, 1}, {&out, 1}),
              absl::InternalError(text));
  }
}

TEST(DeviceKinds, ACountThatThrowsIsNoDevice) {
  DeviceKind kind;
  kind.name = "hasty";
  kind.late_count = []() -> int { throw std::runtime_error("out of luck"); };
  kind.allocator = [](int) { return std::make_shared<SystemAllocator>(); };
  ASSERT_TRUE(register_device_kind(kind).ok());
  testing::internal::CaptureStderr();
  EXPECT_EQ(find_device("hasty").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "weft: there are no devices of kind 'hasty': its late_count threw an exception: out of "
            "luck\n");
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
