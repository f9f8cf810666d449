// Counts what goes through it and shows it to a sink, with who asked.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "runtime/memory/counters.h"

namespace weft::runtime {

struct AllocationTrace {
  enum class Kind { kAllocate, kFree, kFailure };
  Kind kind;
  void *pointer; // null for a failure
  int64_t bytes;
  // Who asked, but for a free: for as long as the call lasts, and empty where it is not known.
  std::string_view purpose = {};  // "output", "arena", "prepared"
  std::string_view op = {};       // what an evaluation's output comes from: "weft.matmul"
  std::string_view line = {};     // which recorded that: "train.cpp:12"
  std::string_view asked_at = {}; // the line that asked for the run: "train.cpp:31"
};

class TracingAllocator : public Allocator {
public:
  // Called after each allocation and failure and before each free, from the calling thread, several
  // at once. May be empty: then the allocator only counts.
  using Sink = std::function<void(const AllocationTrace &)>;
  explicit TracingAllocator(std::shared_ptr<Allocator> upstream, Sink sink = nullptr);
  ~TracingAllocator() override;

  absl::StatusOr<void *> allocate(int64_t bytes, int64_t alignment) override;
  void free(void *pointer, int64_t bytes) override;
  AllocatorStats stats() const override {
    return counters_.snapshot();
  }

private:
  std::shared_ptr<Allocator> upstream_;
  Sink sink_;
  AllocationCounters counters_;
};

} // namespace weft::runtime
