#include "runtime/memory/slab_allocator.h"

#include <algorithm>
#include <limits>

#include "runtime/core/alignment.h"

namespace weft::runtime {

void *SlabAllocator::cut(int64_t bytes) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  std::lock_guard lock(mutex_);
  void *piece = pieces_.take(bytes, kAny);
  if (!piece) {
    int64_t size = std::clamp(slab_bytes_, kFirstSlab, kLargestSlab);
    absl::StatusOr<void *> slab = upstream_->allocate(size, kBufferAlignment);
    if (!slab.ok())
      return nullptr;
    slabs_.emplace(static_cast<char *>(*slab), size);
    slab_bytes_ += size;
    pieces_.add(*slab, size);
    pieces_.put(*slab);
    piece = pieces_.take(bytes, kAny);
  }
  cut_bytes_ += bytes;
  return piece;
}

absl::StatusOr<void *> SlabAllocator::allocate(int64_t bytes, int64_t alignment) {
  if (bytes >= kFewestBytes && bytes < kMostBytes && alignment <= kBufferAlignment)
    if (void *piece = cut(align(bytes))) {
      counters_.allocated(bytes);
      return piece;
    }
  absl::StatusOr<void *> pointer = upstream_->allocate(bytes, alignment);
  pointer.ok() ? counters_.allocated(bytes) : counters_.failed();
  return pointer;
}

void SlabAllocator::free(void *pointer, int64_t bytes) {
  if (pointer == nullptr)
    return;
  counters_.freed(bytes);
  {
    std::lock_guard lock(mutex_);
    auto slab = slabs_.upper_bound(static_cast<char *>(pointer));
    if (slab != slabs_.begin() && static_cast<char *>(pointer) < (--slab)->first + slab->second) {
      cut_bytes_ -= align(bytes);
      if (void *whole = pieces_.put(pointer)) {
        pieces_.remove(whole);
        upstream_->free(whole, slab->second);
        slab_bytes_ -= slab->second;
        slabs_.erase(slab);
      }
      return;
    }
  }
  upstream_->free(pointer, bytes);
}

AllocatorStats SlabAllocator::stats() const {
  AllocatorStats stats = counters_.snapshot();
  std::lock_guard lock(mutex_);
  stats.reserved_bytes += slab_bytes_ - cut_bytes_;
  stats.pinned_bytes = slab_bytes_ - cut_bytes_;
  return stats;
}

} // namespace weft::runtime
