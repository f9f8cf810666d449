// An allocator with its books: who holds how much, for reports and for errors that help.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/memory/allocator.h"

namespace weft::runtime {

class Buffer;

// All the memory that one purpose holds.
struct MemoryHolder {
  const char *purpose;
  int64_t bytes = 0;
  int64_t buffers = 0;
};

// Every byte that Weft takes for tensors, arenas, scratch, constants and library scratch comes from
// a Memory.
class Memory : public std::enable_shared_from_this<Memory> {
public:
  static std::shared_ptr<Memory> create(std::shared_ptr<Allocator> allocator);

  // A buffer of `bytes` bytes (>= 0) at a multiple of kBufferAlignment, contents undefined.
  // `purpose` is a string that lives for ever ("parameter", "arena"). ResourceExhausted names the
  // purpose, the size, what is in use and the largest holders.
  absl::StatusOr<std::shared_ptr<Buffer>> allocate(int64_t bytes, const char *purpose);

  Allocator &allocator() const {
    return *allocator_;
  }
  // Largest first.
  std::vector<MemoryHolder> holders() const;

private:
  friend class Buffer;
  explicit Memory(std::shared_ptr<Allocator> allocator) : allocator_(std::move(allocator)) {}
  void release(void *data, int64_t bytes, const char *purpose);
  void account(const char *purpose, int64_t bytes, int64_t buffers);

  std::shared_ptr<Allocator> allocator_;
  mutable std::mutex mutex_;
  std::vector<MemoryHolder> holders_; // one row a purpose; there are about ten
};

// "1.50 GiB", "640 B".
std::string format_bytes(int64_t bytes);

} // namespace weft::runtime
