#include "runtime/memory/tracing_allocator.h"

namespace weft::runtime {

absl::StatusOr<void *> TracingAllocator::allocate(int64_t bytes, int64_t alignment) {
  absl::StatusOr<void *> pointer = upstream_->allocate(bytes, alignment);
  if (pointer.ok())
    counters_.allocated(bytes);
  else
    counters_.failed();
  if (sink_)
    sink_({pointer.ok() ? AllocationTrace::Kind::kAllocate : AllocationTrace::Kind::kFailure,
           pointer.ok() ? *pointer : nullptr, bytes});
  return pointer;
}

void TracingAllocator::free(void *pointer, int64_t bytes) {
  if (pointer == nullptr)
    return;
  if (sink_)
    sink_({AllocationTrace::Kind::kFree, pointer, bytes});
  upstream_->free(pointer, bytes);
  counters_.freed(bytes);
}

} // namespace weft::runtime
