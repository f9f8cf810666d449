// The end of some work, with its error.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"

namespace weft::runtime {

class Event;

// Work in a line, whose ends events are.
class EventQueue {
public:
  // Runs what stands in the line on the calling thread, unless another thread does, until the event
  // is done or nothing is left.
  virtual void run_until(const Event &event) = 0;

protected:
  ~EventQueue() = default;
};

// Completed once, waited for by any number of threads.
class Event {
public:
  // queue: whose work the waiting threads run themselves, rather than wait until another one wakes
  // up for it; null where they only wait. The queue outlives the event's completion.
  explicit Event(EventQueue *queue = nullptr) : queue_(queue) {}
  Event(const Event &) = delete;
  Event &operator=(const Event &) = delete;

  bool done() const {
    return state_.load(std::memory_order_acquire) == kDone;
  }
  // Runs work of the event's queue; then spins for a moment (core/spin.h), then sleeps. The status
  // that the work ended with; FailedPrecondition in a forked child (core/ends.h), where it never
  // ends.
  absl::Status wait() const;
  // Once.
  void complete(absl::Status status);

private:
  // kAwaited: a thread may sleep until it is done. A completion that nobody sleeps for makes no
  // system call.
  enum State : uint32_t { kPending, kAwaited, kDone };
  EventQueue *queue_;
  mutable std::atomic<uint32_t> state_{kPending};
  absl::Status status_; // written before state_, read after it
};

} // namespace weft::runtime
