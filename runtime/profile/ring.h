// The events of one thread, from it to the writer.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "runtime/profile/limits.h"

namespace weft::runtime::profile {

struct Event {
  int64_t begin; // of the steady clock, in nanoseconds
  int64_t duration;
  int64_t value;
  uint32_t label;
};

// One thread puts, one at a time takes; neither waits for the other.
class Ring {
public:
  Ring(int thread, std::string name) : thread(thread), name(std::move(name)) {}

  // How many events it holds now; 0 when it is full and the event was dropped.
  uint64_t put(const Event &event) {
    uint64_t put = put_.load(std::memory_order_relaxed);
    uint64_t held = put - taken_.load(std::memory_order_acquire);
    if (held == kEventsOfThread) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return 0;
    }
    events_[put % kEventsOfThread] = event;
    put_.store(put + 1, std::memory_order_release);
    return held + 1;
  }

  // Hands all that it holds to visit(event).
  template <typename Visit> void take(Visit visit) {
    uint64_t taken = taken_.load(std::memory_order_relaxed);
    uint64_t end = put_.load(std::memory_order_acquire);
    for (; taken < end; ++taken)
      visit(events_[taken % kEventsOfThread]);
    taken_.store(taken, std::memory_order_release);
  }

  bool is_empty() const {
    return put_.load(std::memory_order_acquire) == taken_.load(std::memory_order_relaxed);
  }

  int64_t take_dropped() {
    return dropped_.exchange(0, std::memory_order_relaxed);
  }

  const int thread;               // its number in the file
  std::string name;               // under the lock of who takes
  bool is_named = false;          // in the file; the same
  std::atomic<bool> ended{false}; // the thread is gone

private:
  std::array<Event, kEventsOfThread> events_;
  alignas(64) std::atomic<uint64_t> put_{0};
  alignas(64) std::atomic<uint64_t> taken_{0};
  std::atomic<int64_t> dropped_{0};
};

} // namespace weft::runtime::profile
