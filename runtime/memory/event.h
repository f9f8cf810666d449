// The end of some work, with its error.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"

namespace weft::runtime {

// Completed once, waited for by any number of threads.
class Event {
public:
  Event() = default;
  Event(const Event &) = delete;
  Event &operator=(const Event &) = delete;

  bool done() const {
    return state_.load(std::memory_order_acquire) != 0;
  }
  // Spins for a moment (core/spin.h), then sleeps. The status that the work ended with.
  absl::Status wait() const;
  // Once.
  void complete(absl::Status status);

private:
  std::atomic<uint32_t> state_{0};
  absl::Status status_; // written before state_, read after it
};

} // namespace weft::runtime
