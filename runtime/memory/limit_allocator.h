// Refuses to hand out more than a limit.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/memory/counters.h"

namespace weft::runtime {

class LimitAllocator : public Allocator {
public:
  LimitAllocator(std::shared_ptr<Allocator> upstream, int64_t limit_bytes)
      : upstream_(std::move(upstream)), limit_bytes_(limit_bytes) {}

  absl::StatusOr<void *> allocate(int64_t bytes, int64_t alignment) override;
  void free(void *pointer, int64_t bytes) override;
  AllocatorStats stats() const override {
    return counters_.snapshot();
  }
  int64_t limit_bytes() const {
    return limit_bytes_;
  }

private:
  std::shared_ptr<Allocator> upstream_;
  int64_t limit_bytes_;
  std::atomic<int64_t> taken_{0};
  AllocationCounters counters_;
};

} // namespace weft::runtime
