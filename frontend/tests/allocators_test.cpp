// Allocators that stand behind each other, on every device that there is.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/executor/device.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/memory/limit_allocator.h"
#include "runtime/memory/tracing_allocator.h"
#include "tests/support/errors.h"
#include "weft/weft.h"

namespace weft {
namespace {

constexpr int64_t kLimit = 6 << 20;

// Those whose memory is there: a GPU's driver may see none.
std::vector<Device> usable() {
  std::vector<Device> found;
  for (Device device : devices())
    if (runtime::device(device.index()).memory()->allocate(64, "test").ok())
      found.push_back(device);
  return found;
}

float sum_of_steps(Device device) {
  DeviceScope scope(device);
  Tensor w = full({64, 64}, 0.5f).set_requires_grad(), x = ones({64, 64});
  for (int i = 0; i < 3; ++i) {
    Tensor loss = matmul(x, w).sum();
    loss.backward();
    {
      NoGrad no_history;
      w.sub_(w.grad() * 1e-4f);
    }
    w.zero_grad();
  }
  return w.sum().item<float>();
}

TEST(Allocators, StandBehindEachOtherOnEachDevice) {
  float expected = sum_of_steps(Device());
  for (Device device : usable()) {
    SCOPED_TRACE(device.name());
    auto base = std::make_shared<runtime::TracingAllocator>(default_allocator(device));
    auto caching = std::make_shared<runtime::CachingAllocator>(base);
    auto limit = std::make_shared<runtime::LimitAllocator>(caching, kLimit);
    std::atomic<int64_t> traced = 0;
    auto tracing = std::make_shared<runtime::TracingAllocator>(
        limit, [&](const runtime::AllocationTrace &trace) {
          bool frees = trace.kind == runtime::AllocationTrace::Kind::kFree;
          traced += frees ? -trace.bytes : trace.pointer ? trace.bytes : 0;
        });
    set_allocator(tracing, device);
    EXPECT_NEAR(sum_of_steps(device), expected, 1e-2);
    {
      DeviceScope scope(device);
      Tensor held = ones({1 << 18}).eval(); // 1 MiB
      synchronize();
      // What goes through all of them, and the cache's blocks.
      int64_t live = memory_statistics(device).live_bytes;
      EXPECT_GE(live, 4 << 18);
      EXPECT_EQ(traced, live);
      EXPECT_EQ(limit->stats().live_bytes, live);
      EXPECT_EQ(caching->stats().live_bytes, live);
      EXPECT_GE(caching->stats().reserved_bytes, live);
      EXPECT_EQ(base->stats().live_bytes, caching->stats().reserved_bytes);
      EXPECT_GE(default_allocator(device)->stats().live_bytes, base->stats().live_bytes);
      Error error = testing_support::error_of([&] {
        (void)(cat({held, held, held, held, held, held}, 0) + 1).eval();
      });
      EXPECT_EQ(error.kind(), ErrorKind::kMemory);
      std::string message = error.what();
      EXPECT_NE(message.find("out of memory: output asked for 6.00 MiB"), std::string::npos)
          << message;
      EXPECT_NE(message.find("the limit of 6.00 MiB leaves"), std::string::npos) << message;
      EXPECT_NE(message.find(", by output "), std::string::npos) << message; // the holders
      EXPECT_GT(memory_statistics(device).failures, 0);
      EXPECT_EQ((held + 1).sum().item<float>(), 2 << 18); // the program goes on
    }
    synchronize();
    set_allocator(nullptr, device);
    synchronize();
    EXPECT_EQ(limit->stats().live_bytes, 0);
    caching->trim();
    EXPECT_EQ(base->stats().live_bytes, 0);
    EXPECT_NEAR(sum_of_steps(device), expected, 1e-2);
  }
}

TEST(Allocators, ATraceSaysWhoAskedWhichOpAndWhere) {
  for (Device device : usable()) {
    SCOPED_TRACE(device.name());
    std::mutex mutex;
    std::vector<std::string> seen;
    auto limit = std::make_shared<runtime::LimitAllocator>(default_allocator(device), 1 << 20);
    auto tracing = std::make_shared<runtime::TracingAllocator>(
        limit, [&](const runtime::AllocationTrace &trace) {
          if (trace.kind == runtime::AllocationTrace::Kind::kFree)
            return;
          std::lock_guard lock(mutex);
          seen.push_back((trace.pointer ? "" : "no room for ") + std::string(trace.purpose) + " " +
                         std::to_string(trace.bytes) + " " + std::string(trace.op) + " " +
                         std::string(trace.line.substr(trace.line.rfind('/') + 1)) + " asked at " +
                         std::string(trace.asked_at.substr(trace.asked_at.rfind('/') + 1)));
        });
    DeviceScope scope(device);
    Tensor x = ones({96, 96}).eval();
    set_allocator(tracing, device);
    auto at = [](int line) {
      return "allocators_test.cpp:" + std::to_string(line);
    };
    int recorded = __LINE__ + 1;
    Tensor y = matmul(x, x);
    y.eval();
    std::string expected =
        "output 36864 weft.matmul " + at(recorded) + " asked at " + at(recorded + 1);
    EXPECT_NE(std::find(seen.begin(), seen.end(), expected), seen.end())
        << expected << "; " << testing::PrintToString(seen);
    recorded = __LINE__ + 1;
    Tensor large = broadcast_to(x.sum(), {1000, 1000}) * 2;
    EXPECT_THROW(large.eval(), Error);
    expected =
        "no room for output 4000000 weft.mul " + at(recorded) + " asked at " + at(recorded + 1);
    EXPECT_NE(std::find(seen.begin(), seen.end(), expected), seen.end())
        << expected << "; " << testing::PrintToString(seen);
    y = large = Tensor();
    synchronize();
    set_allocator(nullptr, device);
  }
}

// A loop that reads nothing has the gradients of two or three steps, and not of all that are
// queued.
TEST(Allocators, ALoopThatRunsAheadTakesTheMemoryOfFewSteps) {
  for (Device device : usable()) {
    SCOPED_TRACE(device.name());
    DeviceScope scope(device);
    nn::Linear layer(256, 256); // its weight and the gradient of that have 256 KiB each
    optim::SGD optimizer(layer.parameters(), {.lr = 1e-3});
    Tensor x = ones({16, 256}).eval();
    auto step = [&] {
      optimizer.zero_grad();
      (layer(x) * layer(x)).mean().backward();
      optimizer.step();
    };
    for (int i = 0; i < 3; ++i)
      step();
    synchronize();
    auto tracing = std::make_shared<runtime::TracingAllocator>(default_allocator(device));
    set_allocator(tracing, device);
    runtime::Executor &executor = runtime::device(device.index()).executor();
    int64_t handed_on = executor.stats().ordered_buffers;
    std::atomic<bool> open = false;
    auto held = executor.submit([&](const runtime::RunContext &) {
      while (!open)
        std::this_thread::yield();
      return absl::OkStatus();
    });
    constexpr int kSteps = 10; // fewer than are under way at most
    for (int i = 0; i < kSteps; ++i)
      step();
    int64_t live = tracing->stats().live_bytes;
    open = true;
    synchronize();
    EXPECT_LE(live, 5 * (256 << 10)); // with the arena
    EXPECT_GE(executor.stats().ordered_buffers - handed_on, kSteps - 3);
    optimizer.zero_grad();
    set_allocator(nullptr, device);
  }
}

} // namespace
} // namespace weft
