// What every allocator counts.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/memory/allocator.h"

namespace weft::runtime {

class AllocationCounters {
public:
  void allocated(int64_t bytes) {
    int64_t live = live_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    int64_t peak = peak_.load(std::memory_order_relaxed);
    while (live > peak && !peak_.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {}
    allocations_.fetch_add(1, std::memory_order_relaxed);
  }
  void freed(int64_t bytes) {
    live_.fetch_sub(bytes, std::memory_order_relaxed);
    frees_.fetch_add(1, std::memory_order_relaxed);
  }
  void failed() {
    failures_.fetch_add(1, std::memory_order_relaxed);
  }
  // reserved_bytes equals live_bytes; an allocator that keeps freed blocks adds them itself.
  AllocatorStats snapshot() const {
    AllocatorStats stats;
    stats.live_bytes = live_.load(std::memory_order_relaxed);
    stats.peak_bytes = peak_.load(std::memory_order_relaxed);
    stats.reserved_bytes = stats.live_bytes;
    stats.allocations = allocations_.load(std::memory_order_relaxed);
    stats.frees = frees_.load(std::memory_order_relaxed);
    stats.failures = failures_.load(std::memory_order_relaxed);
    return stats;
  }

private:
  std::atomic<int64_t> live_{0}, peak_{0}, allocations_{0}, frees_{0}, failures_{0};
};

} // namespace weft::runtime
