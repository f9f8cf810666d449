// Counts what goes through it and shows it to a sink.
#pragma once

#include <functional>
#include <memory>

#include "runtime/memory/counters.h"

namespace weft::runtime {

struct AllocationTrace {
  enum class Kind { kAllocate, kFree, kFailure };
  Kind kind;
  void *pointer; // null for a failure
  int64_t bytes;
};

class TracingAllocator : public Allocator {
public:
  // Called after each allocation and failure and before each free, from the calling thread, several
  // at once. May be empty: then the allocator only counts.
  using Sink = std::function<void(const AllocationTrace &)>;
  explicit TracingAllocator(std::shared_ptr<Allocator> upstream, Sink sink = nullptr)
      : upstream_(std::move(upstream)), sink_(std::move(sink)) {}

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
