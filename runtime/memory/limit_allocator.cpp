#include "runtime/memory/limit_allocator.h"

#include "absl/strings/str_cat.h"
#include "runtime/memory/memory.h"

namespace weft::runtime {

absl::StatusOr<void *> LimitAllocator::allocate(int64_t bytes, int64_t alignment) {
  if (bytes < 0)
    return absl::InvalidArgumentError(absl::StrCat("cannot allocate ", bytes, " bytes"));
  int64_t taken = taken_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_bytes_ - taken) {
      counters_.failed();
      return absl::ResourceExhaustedError(absl::StrCat("the limit of ", format_bytes(limit_bytes_),
                                                       " leaves ",
                                                       format_bytes(limit_bytes_ - taken)));
    }
  } while (!taken_.compare_exchange_weak(taken, taken + bytes, std::memory_order_relaxed));
  absl::StatusOr<void *> pointer = upstream_->allocate(bytes, alignment);
  if (pointer.ok()) {
    counters_.allocated(bytes);
  } else {
    taken_.fetch_sub(bytes, std::memory_order_relaxed);
    counters_.failed();
  }
  return pointer;
}

void LimitAllocator::free(void *pointer, int64_t bytes) {
  if (pointer == nullptr)
    return;
  upstream_->free(pointer, bytes);
  taken_.fetch_sub(bytes, std::memory_order_relaxed);
  counters_.freed(bytes);
}

} // namespace weft::runtime
