#include "runtime/memory/event.h"

#include "runtime/core/spin.h"

namespace weft::runtime {

absl::Status Event::wait() const {
  if (queue_ && !done())
    queue_->run_until(*this);
  spin_until([this] { return done(); });
  while (!done())
    state_.wait(0, std::memory_order_acquire);
  return status_;
}

void Event::complete(absl::Status status) {
  status_ = std::move(status);
  state_.store(1, std::memory_order_release);
  state_.notify_all();
}

} // namespace weft::runtime
