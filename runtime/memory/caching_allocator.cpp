#include "runtime/memory/caching_allocator.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "runtime/core/caches.h"

namespace weft::runtime {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kSmall = 512;
constexpr int64_t kLarge = int64_t{1} << 20;
constexpr int64_t kLargeStep = int64_t{64} << 10;
constexpr int64_t kMaxBytes = int64_t{1} << 60;

int64_t round_up(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}

const RegisteredCache registered(
    "freed memory",
    "an allocation of the same size, or of less from 1 MiB on; the least recently freed beyond the "
    "bound",
    [] {
      CacheUse use{0, 0, -1, 0};
      Instances<CachingAllocator>::instance().each([&](const CachingAllocator *allocator) {
        use.entries += allocator->cached_blocks();
        use.bytes += allocator->cached_bytes();
        use.max_bytes += allocator->options().max_cached_bytes;
      });
      return use;
    });

} // namespace

int64_t CachingAllocator::class_bytes(int64_t bytes) {
  if (bytes <= kSmall)
    return std::max(round_up(bytes, kAlignment), kAlignment);
  if (bytes >= kLarge)
    return round_up(bytes, kLargeStep);
  return round_up(bytes, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes))) / 16);
}

CachingAllocator::CachingAllocator(std::shared_ptr<Allocator> upstream,
                                   CachingAllocatorOptions options)
    : upstream_(std::move(upstream)), options_(options) {
  Instances<CachingAllocator>::instance().add(this);
}

CachingAllocator::~CachingAllocator() {
  Instances<CachingAllocator>::instance().remove(this);
  trim(0);
}

absl::StatusOr<void *> CachingAllocator::allocate(int64_t bytes, int64_t alignment) {
  if (bytes < 0 || bytes > kMaxBytes || alignment <= 0) {
    counters_.failed();
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot allocate ", bytes, " bytes aligned to ", alignment));
  }
  bool over_aligned = alignment > kAlignment;
  int64_t block = over_aligned ? bytes : class_bytes(bytes);
  std::lock_guard lock(mutex_);
  bool large = !over_aligned && block >= options_.split_bytes;
  if (void *kept = over_aligned ? nullptr : large ? take_piece(block) : take_from_class(block)) {
    cached_bytes_ -= block;
    counters_.allocated(bytes);
    return kept;
  }
  absl::StatusOr<void *> pointer = upstream_->allocate(block, std::max(alignment, kAlignment));
  if (!pointer.ok() && cached_bytes_ > 0) {
    trim_locked(0);
    pointer = upstream_->allocate(block, std::max(alignment, kAlignment));
  }
  if (!pointer.ok()) {
    cuts_ = cuts_ && pinned_bytes_ < block;
    counters_.failed();
    return pointer;
  }
  reserved_bytes_ += block;
  if (large)
    pieces_.add(*pointer, block);
  if (over_aligned)
    over_aligned_.emplace(*pointer, block);
  counters_.allocated(bytes);
  return pointer;
}

inline void *CachingAllocator::take_from_class(int64_t bytes) {
  auto found = by_class_.find(bytes);
  if (found == by_class_.end() || found->second.empty())
    return nullptr;
  // The one freed last is the likeliest to be in a cache of the processor.
  bool lowest = options_.lowest_address_first;
  Blocks::iterator taken = lowest ? found->second.front() : found->second.back();
  lowest ? found->second.pop_front() : found->second.pop_back();
  spare_.splice(spare_.end(), unused_, taken);
  return taken->pointer;
}

void *CachingAllocator::take_piece(int64_t bytes) {
  void *piece = pieces_.take(bytes, cuts_ ? kMaxBytes : bytes);
  if (!piece)
    return nullptr;
  pinned_bytes_ -= bytes;
  if (auto whole = whole_.find(piece); whole != whole_.end()) {
    pinned_bytes_ += whole->second->bytes;
    spare_.splice(spare_.end(), unused_, whole->second);
    whole_.erase(whole);
  }
  return piece;
}

void CachingAllocator::put_piece(void *piece, int64_t bytes) {
  pinned_bytes_ += bytes;
  if (void *whole = pieces_.put(piece)) {
    Blocks::iterator kept = keep(whole, pieces_.bytes_of(whole));
    pinned_bytes_ -= kept->bytes;
    whole_.emplace(whole, kept);
  }
}

inline CachingAllocator::Blocks::iterator CachingAllocator::keep(void *block, int64_t bytes) {
  if (spare_.empty())
    spare_.emplace_back();
  spare_.back() = {block, bytes};
  unused_.splice(unused_.end(), spare_, std::prev(spare_.end()));
  return std::prev(unused_.end());
}

// The first block from that address on.
CachingAllocator::Unused::iterator CachingAllocator::at_address(Unused &blocks,
                                                                const void *pointer) {
  return std::lower_bound(blocks.begin(), blocks.end(), pointer,
                          [](Blocks::iterator block, const void *pointer) {
                            return std::less<const void *>()(block->pointer, pointer);
                          });
}

void CachingAllocator::free(void *pointer, int64_t bytes) {
  if (pointer == nullptr)
    return;
  counters_.freed(bytes);
  std::lock_guard lock(mutex_);
  if (!over_aligned_.empty()) {
    if (auto found = over_aligned_.find(pointer); found != over_aligned_.end()) {
      reserved_bytes_ -= found->second;
      upstream_->free(pointer, found->second);
      over_aligned_.erase(found);
      return;
    }
  }
  int64_t block = class_bytes(bytes);
  if (block >= options_.split_bytes) {
    put_piece(pointer, block);
  } else {
    Blocks::iterator kept = keep(pointer, block);
    Unused &same = by_class_[block];
    same.insert(options_.lowest_address_first ? at_address(same, pointer) : same.end(), kept);
  }
  cached_bytes_ += block;
  if (cached_bytes_ - pinned_bytes_ > options_.max_cached_bytes)
    trim_locked(options_.max_cached_bytes);
}

void CachingAllocator::trim_locked(int64_t keep_bytes) {
  while (cached_bytes_ - pinned_bytes_ > keep_bytes && !unused_.empty()) {
    Block block = unused_.front();
    if (whole_.erase(block.pointer) > 0) {
      pieces_.remove(block.pointer);
    } else {
      auto found = by_class_.find(block.bytes);
      found->second.erase(options_.lowest_address_first ? at_address(found->second, block.pointer)
                                                        : found->second.begin());
      if (found->second.empty())
        by_class_.erase(found);
    }
    unused_.pop_front();
    cached_bytes_ -= block.bytes;
    reserved_bytes_ -= block.bytes;
    upstream_->free(block.pointer, block.bytes);
  }
}

void CachingAllocator::trim(int64_t keep_bytes) {
  std::lock_guard lock(mutex_);
  trim_locked(keep_bytes);
}

int64_t CachingAllocator::cached_bytes() const {
  std::lock_guard lock(mutex_);
  return cached_bytes_;
}

int64_t CachingAllocator::cached_blocks() const {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(unused_.size());
}

AllocatorStats CachingAllocator::stats() const {
  AllocatorStats stats = counters_.snapshot();
  std::lock_guard lock(mutex_);
  stats.reserved_bytes = reserved_bytes_;
  stats.pinned_bytes = pinned_bytes_;
  return stats;
}

} // namespace weft::runtime
