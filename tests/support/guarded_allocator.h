// Memory that shows what was written beside it. Kernels made at run time are not instrumented, so
// that no sanitizer sees what they write.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "runtime/memory/allocator.h"

namespace weft::tests {

// Each block lies between two guards of kGuardBytes, whose bytes depend on where they lie, so that
// neither a constant nor another guard looks like them. A new block is full of 0xff, which is NaN.
class GuardedAllocator : public runtime::Allocator {
public:
  static constexpr int64_t kGuardBytes = 1024;

  absl::StatusOr<void *> allocate(int64_t bytes, int64_t alignment) override;
  void free(void *pointer, int64_t bytes) override;
  runtime::AllocatorStats stats() const override;
  // Looks at the guards of all blocks; what was written beside one of them, or beside one that was
  // freed since the last call. Empty for nothing.
  std::string fault();

private:
  struct Block {
    int64_t bytes;
    void *memory; // the guards as well
  };
  // Under the mutex.
  void look_at(unsigned char *begin, int64_t bytes);

  mutable std::mutex mutex_;
  std::map<unsigned char *, Block> blocks_;
  std::string fault_;
  runtime::AllocatorStats stats_;
};

} // namespace weft::tests
