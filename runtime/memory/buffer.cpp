#include "runtime/memory/buffer.h"

#include <utility>

#include "runtime/memory/memory.h"

namespace weft::runtime {

std::shared_ptr<Buffer> Buffer::borrow(void *data, int64_t bytes, std::shared_ptr<const void> owner) {
  std::shared_ptr<Buffer> buffer(new Buffer(data, bytes, "borrowed"));
  buffer->owner_ = std::move(owner);
  return buffer;
}

Buffer::~Buffer() {
  if (memory_) memory_->release(data_, bytes_, purpose_);
}

std::shared_ptr<const Event> Buffer::last_write() const {
  std::lock_guard lock(mutex_);
  return write_;
}

absl::Status Buffer::wait() const {
  std::shared_ptr<const Event> write = last_write();
  return write ? write->wait() : absl::OkStatus();
}

absl::Status Buffer::wait_idle() const {
  std::shared_ptr<const Event> use;
  {
    std::lock_guard lock(mutex_);
    use = use_;
  }
  // One executor runs a device's work in order, so the last use ends after all the others.
  if (use) use->wait().IgnoreError();
  return wait();
}

bool Buffer::is_written() const {
  std::lock_guard lock(mutex_);
  return !write_ || write_->done();
}

bool Buffer::is_idle() const {
  std::lock_guard lock(mutex_);
  return (!write_ || write_->done()) && (!use_ || use_->done());
}

absl::Status Buffer::error() const {
  std::shared_ptr<const Event> write = last_write();
  return write && write->done() ? write->wait() : absl::OkStatus();
}

std::shared_ptr<const Event> Buffer::begin_read(std::shared_ptr<const Event> event) {
  std::lock_guard lock(mutex_);
  use_ = std::move(event);
  return write_;
}

std::shared_ptr<const Event> Buffer::begin_write(std::shared_ptr<const Event> event) {
  std::lock_guard lock(mutex_);
  use_ = event;
  return std::exchange(write_, std::move(event));
}

} // namespace weft::runtime
