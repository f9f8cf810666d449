#include "runtime/memory/tracing_allocator.h"

#include "runtime/memory/asking.h"

namespace weft::runtime {

TracingAllocator::TracingAllocator(std::shared_ptr<Allocator> upstream, Sink sink)
    : upstream_(std::move(upstream)), sink_(std::move(sink)) {
  asking_is_traced += sink_ != nullptr;
}

TracingAllocator::~TracingAllocator() {
  asking_is_traced -= sink_ != nullptr;
}

absl::StatusOr<void *> TracingAllocator::allocate(int64_t bytes, int64_t alignment) {
  absl::StatusOr<void *> pointer = upstream_->allocate(bytes, alignment);
  if (pointer.ok())
    counters_.allocated(bytes);
  else
    counters_.failed();
  if (sink_) {
    AllocationTrace trace{pointer.ok() ? AllocationTrace::Kind::kAllocate
                                       : AllocationTrace::Kind::kFailure,
                          pointer.ok() ? *pointer : nullptr, bytes, asking.purpose};
    if (asking.run)
      trace.asked_at = asking.run->line;
    if (asking.origin) {
      trace.op = asking.origin->op;
      trace.line = asking.origin->line;
    }
    sink_(trace);
  }
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
