#include "runtime/memory/system_allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "runtime/memory/memory.h"

namespace weft::runtime {
namespace {

// The address space of a process on x86-64 and AArch64: no system has more.
constexpr int64_t kMaxBytes = int64_t{1} << 47;

} // namespace

absl::StatusOr<void *> SystemAllocator::allocate(int64_t bytes, int64_t alignment) {
  if (bytes < 0 || alignment <= 0 || (alignment & (alignment - 1)) != 0)
    return absl::InvalidArgumentError(
        absl::StrCat("cannot allocate ", bytes, " bytes aligned to ", alignment));
  bool huge = bytes >= 2 * kHugePageBytes;
  int64_t aligned_to = std::max<int64_t>(huge ? kHugePageBytes : alignment,
                                         std::max<int64_t>(alignment, sizeof(void *)));
  void *pointer = nullptr;
  if (bytes > kMaxBytes || posix_memalign(&pointer, static_cast<size_t>(aligned_to),
                                          static_cast<size_t>(std::max<int64_t>(bytes, 1))) != 0) {
    counters_.failed();
    return absl::ResourceExhaustedError(
        absl::StrCat("the system has no ", format_bytes(bytes), " left"));
  }
  if (huge)
    madvise(pointer, static_cast<size_t>(bytes),
            MADV_HUGEPAGE); // a hint: failure changes nothing but speed
  counters_.allocated(bytes);
  return pointer;
}

void SystemAllocator::free(void *pointer, int64_t bytes) {
  if (pointer == nullptr)
    return;
  std::free(pointer);
  counters_.freed(bytes);
}

} // namespace weft::runtime
