#include "tests/support/guarded_allocator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace weft::tests {

static unsigned char guard_byte(const unsigned char *at) {
  auto hash = reinterpret_cast<uint64_t>(at);
  hash ^= hash >> 7;
  return static_cast<unsigned char>(hash * 0x9E3779B97F4A7C15u >> 56);
}

absl::StatusOr<void *> GuardedAllocator::allocate(int64_t bytes, int64_t alignment) {
  int64_t before = std::max(alignment, kGuardBytes),
          all = (before + bytes + kGuardBytes + before - 1) / before * before;
  auto *memory = static_cast<unsigned char *>(
      std::aligned_alloc(static_cast<size_t>(before), static_cast<size_t>(all)));
  std::lock_guard lock(mutex_);
  if (!memory) {
    ++stats_.failures;
    return absl::ResourceExhaustedError("the system has no memory left");
  }
  unsigned char *begin = memory + before, *end = begin + bytes;
  std::memset(begin, 0xff, static_cast<size_t>(bytes));
  for (int64_t i = 0; i < kGuardBytes; ++i) {
    begin[-1 - i] = guard_byte(begin - 1 - i);
    end[i] = guard_byte(end + i);
  }
  blocks_[begin] = {bytes, memory};
  ++stats_.allocations;
  stats_.live_bytes += bytes;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
  stats_.reserved_bytes = stats_.live_bytes;
  return begin;
}

void GuardedAllocator::free(void *pointer, int64_t) {
  if (!pointer)
    return;
  std::lock_guard lock(mutex_);
  auto block = blocks_.find(static_cast<unsigned char *>(pointer));
  look_at(block->first, block->second.bytes);
  ++stats_.frees;
  stats_.reserved_bytes = stats_.live_bytes -= block->second.bytes;
  std::free(block->second.memory);
  blocks_.erase(block);
}

runtime::AllocatorStats GuardedAllocator::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

std::string GuardedAllocator::fault() {
  std::lock_guard lock(mutex_);
  for (const auto &[begin, block] : blocks_)
    look_at(begin, block.bytes);
  return std::exchange(fault_, "");
}

// Mends what it finds, so that it is told once.
void GuardedAllocator::look_at(unsigned char *begin, int64_t bytes) {
  auto check = [&](unsigned char *at, int64_t offset, const char *beside) {
    if (*at == guard_byte(at))
      return;
    *at = guard_byte(at);
    if (fault_.empty())
      fault_ = std::to_string(offset) + " bytes " + beside + " a block of " +
               std::to_string(bytes) + " bytes was written";
  };
  for (int64_t i = 0; i < kGuardBytes; ++i) {
    check(begin - 1 - i, i + 1, "before");
    check(begin + bytes + i, i, "behind the end of");
  }
}

} // namespace weft::tests
