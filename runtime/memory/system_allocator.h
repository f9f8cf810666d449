// Memory from the C library and the operating system.
#pragma once

#include "runtime/memory/counters.h"

namespace weft::runtime {

// Blocks of two of these and more are aligned to huge pages and the kernel is asked to use them:
// fewer TLB misses on arenas and weights.
inline constexpr int64_t kHugePageBytes = int64_t{2} << 20;

class SystemAllocator : public Allocator {
public:
  absl::StatusOr<void *> allocate(int64_t bytes, int64_t alignment) override;
  void free(void *pointer, int64_t bytes) override;
  AllocatorStats stats() const override {
    return counters_.snapshot();
  }

private:
  AllocationCounters counters_;
};

} // namespace weft::runtime
