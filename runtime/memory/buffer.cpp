#include "runtime/memory/buffer.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "runtime/memory/memory.h"

namespace weft::runtime {
namespace {

std::atomic<uint64_t> next_contents{1};

bool is_done(const std::shared_ptr<const Event> &event) {
  return event->done();
}

void drop_all(const std::vector<std::weak_ptr<BufferDependent>> &dependents) {
  for (const std::weak_ptr<BufferDependent> &dependent : dependents)
    if (std::shared_ptr<BufferDependent> alive = dependent.lock())
      alive->drop();
}

} // namespace

Buffer::Buffer(void *data, int64_t bytes, const char *purpose)
    : data_(data), contents_(next_contents.fetch_add(1, std::memory_order_relaxed)), bytes_(bytes),
      purpose_(purpose) {}

// With a constructor that make_shared can call.
struct Buffer::Made : Buffer {
  Made(void *data, int64_t bytes, const char *purpose) : Buffer(data, bytes, purpose) {}
};

std::shared_ptr<Buffer> Buffer::make(void *data, int64_t bytes, const char *purpose) {
  return std::make_shared<Made>(data, bytes, purpose);
}

std::shared_ptr<Buffer> Buffer::borrow(void *data, int64_t bytes,
                                       std::shared_ptr<const void> owner) {
  std::shared_ptr<Buffer> buffer = make(data, bytes, "borrowed");
  buffer->owner_ = std::move(owner);
  return buffer;
}

std::shared_ptr<Buffer> Buffer::borrow_constant(const void *data, int64_t bytes,
                                                std::shared_ptr<const void> owner) {
  std::shared_ptr<Buffer> buffer = borrow(const_cast<void *>(data), bytes, std::move(owner));
  buffer->constant_ = true;
  return buffer;
}

Buffer::~Buffer() {
  drop_all(dependents_);
  if (memory_)
    memory_->release(data_, bytes_, purpose_);
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
  Events reads;
  {
    std::lock_guard lock(mutex_);
    reads = reads_;
  }
  for (const std::shared_ptr<const Event> &read : reads)
    read->wait().IgnoreError();
  return wait();
}

bool Buffer::is_written() const {
  std::lock_guard lock(mutex_);
  return !write_ || write_->done();
}

bool Buffer::is_idle() const {
  std::lock_guard lock(mutex_);
  return (!write_ || write_->done()) && std::all_of(reads_.begin(), reads_.end(), is_done);
}

absl::Status Buffer::error() const {
  // A weight's, at each run: its last write was long ago.
  if (!has_write_.load(std::memory_order_acquire))
    return absl::OkStatus();
  std::lock_guard lock(mutex_);
  return write_ && write_->done() ? write_->wait() : absl::OkStatus();
}

Buffer::Uses Buffer::begin_read(std::shared_ptr<const Event> event) {
  std::lock_guard lock(mutex_);
  // At the place of one that is done, most often: this is called for each weight at each run.
  auto done = std::remove_if(reads_.begin(), reads_.end(), is_done);
  if (done == reads_.end()) {
    reads_.push_back(std::move(event));
  } else {
    *done = std::move(event);
    reads_.erase(done + 1, reads_.end());
  }
  if (write_ && write_->done() && write_->wait().ok()) {
    write_ = nullptr;
    has_write_.store(false, std::memory_order_release);
  }
  return {write_, {}};
}

Buffer::Uses Buffer::begin_write(std::shared_ptr<const Event> event) {
  std::vector<std::weak_ptr<BufferDependent>> dependents;
  Uses before;
  {
    std::lock_guard lock(mutex_);
    before.reads = std::exchange(reads_, Events());
    before.write = std::exchange(write_, std::move(event));
    has_write_.store(true, std::memory_order_release);
    dependents = renew();
  }
  drop_all(dependents);
  return before;
}

uint32_t Buffer::count_use() {
  std::lock_guard lock(mutex_);
  return ++contents_uses_;
}

std::vector<std::weak_ptr<BufferDependent>> Buffer::renew() {
  contents_uses_ = 0;
  contents_ = next_contents.fetch_add(1, std::memory_order_relaxed);
  return std::exchange(dependents_, {});
}

void Buffer::changed() {
  std::vector<std::weak_ptr<BufferDependent>> dependents;
  {
    std::lock_guard lock(mutex_);
    dependents = renew();
  }
  drop_all(dependents);
}

void Buffer::add_dependent(std::weak_ptr<BufferDependent> dependent, uint64_t contents) {
  {
    std::lock_guard lock(mutex_);
    if (contents == contents_) {
      // Those that went for other reasons leave room, so that the list stays as short as what
      // lives.
      std::erase_if(dependents_,
                    [](const std::weak_ptr<BufferDependent> &other) { return other.expired(); });
      dependents_.push_back(std::move(dependent));
      return;
    }
  }
  drop_all({std::move(dependent)});
}

} // namespace weft::runtime
