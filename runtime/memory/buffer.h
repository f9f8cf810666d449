// A piece of memory and what is under way on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "runtime/memory/event.h"

namespace weft::runtime {

class Memory;

// What was made of a buffer's contents, and goes with them.
class BufferDependent {
public:
  virtual ~BufferDependent() = default;
  // The contents are about to be written, or gone. From any thread, without a lock of the buffer's.
  virtual void drop() = 0;
};

// Shared by all that refer to it (shared_ptr); the last one frees the memory. A buffer is `in
// flight` from the moment that a run which reads or writes it is submitted until that run ends. A
// failed run poisons what it should have written.
class Buffer {
public:
  // Memory that somebody else owns: `owner` is kept while the buffer lives (may be null for memory
  // that never goes).
  static std::shared_ptr<Buffer> borrow(void *data, int64_t bytes,
                                        std::shared_ptr<const void> owner);
  // The same of memory that nobody writes while `owner` lives, such as a file that is mapped: what
  // is made of it may be kept, and no run may write it.
  static std::shared_ptr<Buffer> borrow_constant(const void *data, int64_t bytes,
                                                 std::shared_ptr<const void> owner);
  ~Buffer();
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;

  // The bytes themselves, without waiting: call wait() first, or wait_idle() before writing.
  void *data() const {
    return data_;
  }
  int64_t bytes() const {
    return bytes_;
  }
  const char *purpose() const {
    return purpose_;
  }
  // Null for borrowed memory.
  const std::shared_ptr<Memory> &memory() const {
    return memory_;
  }
  bool is_constant() const {
    return constant_;
  }
  // Whether the contents change by what contents() counts only.
  bool keeps_contents() const {
    return memory_ != nullptr || constant_;
  }

  // Waits for the run that writes the buffer, if any; its error when it failed: the contents are
  // lost then.
  absl::Status wait() const;
  // Waits for everything under way that writes or reads the buffer; the error as above.
  absl::Status wait_idle() const;
  // Whether wait() would return at once.
  bool is_written() const;
  // Whether wait_idle() would return at once.
  bool is_idle() const;
  // The error of the last finished write; OK while a write is under way.
  absl::Status error() const;

  // A number for what the buffer holds: no other buffer has had it, and each write gives a new one.
  uint64_t contents() const {
    return contents_.load(std::memory_order_acquire);
  }
  // How often the present contents were used by programs that count on them: this one included.
  uint32_t count_use();
  // Called by whoever writes the buffer other than by begin_write(), before the write: drops what
  // depends on the old contents.
  void changed();
  // Drops `dependent` with the contents numbered `contents`: now, if they are gone already.
  // Nothing may depend on memory that its owner may write at any time (keeps_contents()).
  void add_dependent(std::weak_ptr<BufferDependent> dependent, uint64_t contents);

  using Events = absl::InlinedVector<std::shared_ptr<const Event>, 1>;
  // What a run must wait for before it uses the buffer; done or null where there is nothing.
  struct Uses {
    std::shared_ptr<const Event> write; // its error is the reader's too
    Events reads;                       // of a write only
  };
  // Called by those who submit work, in the order of submission: what `event` ends uses the buffer
  // from now on. A read does not replace the last write's error.
  Uses begin_read(std::shared_ptr<const Event> event);
  Uses begin_write(std::shared_ptr<const Event> event);

private:
  friend class Memory;
  struct Made;
  Buffer(void *data, int64_t bytes, const char *purpose);
  // In one allocation with its count.
  static std::shared_ptr<Buffer> make(void *data, int64_t bytes, const char *purpose);
  // The number of the new contents, and what depended on the old ones. Under the mutex.
  std::vector<std::weak_ptr<BufferDependent>> renew();
  std::shared_ptr<const Event> last_write() const;

  // What each run reads of each of its inputs stands side by side: since the last run it has left
  // the processor's caches.
  void *data_;
  std::atomic<uint64_t> contents_; // written under the mutex
  std::shared_ptr<Memory> memory_;
  bool constant_ = false;
  std::atomic<bool> has_write_ = false; // whether write_ is not null; changes under the mutex
  uint32_t contents_uses_ = 0;          // under the mutex
  int64_t bytes_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Event>
      write_; // the last write; null where nothing was written, or that is over and went well
  Events reads_; // since then, but for those that have ended

  const char *purpose_;
  std::shared_ptr<const void> owner_;
  std::vector<std::weak_ptr<BufferDependent>> dependents_;
};

} // namespace weft::runtime
