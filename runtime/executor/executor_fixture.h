// What tests of executors share: programs that add 1, and an executor of two threads that can be
// held.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/executable/program_executable.h"
#include "runtime/executor/executor.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/memory.h"
#include "runtime/memory/system_allocator.h"
#include "runtime/memory/tracing_allocator.h"

namespace weft::runtime {

using Buffers = std::vector<std::shared_ptr<Buffer>>;

// y[i] = x[i] + 1, through the arena; a negative x[0] is an error.
inline int32_t increment(const weft_kernel_env *, void *const *buffers, const int64_t *, const double *,
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
inline std::shared_ptr<ProgramExecutable> incrementer(const std::shared_ptr<Memory> &memory, bool parallel,
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

inline std::shared_ptr<Buffer> filled(const std::shared_ptr<Memory> &memory, int64_t value,
                               int64_t size = 64) {
  std::shared_ptr<Buffer> buffer = memory->allocate(size * 8, "test").value();
  for (int64_t i = 0; i < size; ++i)
    static_cast<int64_t *>(buffer->data())[i] = value;
  return buffer;
}

inline int64_t last(const std::shared_ptr<Buffer> &buffer) {
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

} // namespace weft::runtime
