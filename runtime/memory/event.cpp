#include "runtime/memory/event.h"

#include "runtime/core/ends.h"
#include "runtime/core/spin.h"

namespace weft::runtime {

absl::Status Event::wait() const {
  if (is_forked_child() && !done())
    return absl::FailedPreconditionError(why_not_compute()); // it never comes
  if (queue_ && !done())
    queue_->run_until(*this);
  spin_until([this] { return done(); });
  while (!done()) {
    uint32_t pending = kPending;
    state_.compare_exchange_strong(pending, kAwaited, std::memory_order_relaxed);
    state_.wait(kAwaited, std::memory_order_acquire);
  }
  return status_;
}

void Event::complete(absl::Status status) {
  status_ = std::move(status);
  if (state_.exchange(kDone, std::memory_order_release) == kAwaited)
    state_.notify_all();
}

} // namespace weft::runtime
