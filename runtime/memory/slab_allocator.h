// Blocks of some pages side by side in huge pages.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "runtime/memory/counters.h"
#include "runtime/memory/pieces.h"

namespace weft::runtime {

// Weights and activations of small networks have some KiB each, and lie in as many pages of 4 KiB:
// more than the processor has entries for (some 2,000), so that each run looks most of them up
// again, which in a virtual machine takes two tables. Cut from slabs that the system may back by
// huge pages, they need few. A slab goes back when nothing of it is in use.
class SlabAllocator : public Allocator {
public:
  // Blocks of [kFewestBytes, kMostBytes) are cut from slabs; others are upstream's, as is a block
  // that no slab can be had for.
  static constexpr int64_t kFewestBytes = int64_t{4} << 10, kMostBytes = int64_t{4} << 20;
  // Slabs are as large as all that there are, between these: a process that needs little takes
  // little.
  static constexpr int64_t kFirstSlab = int64_t{4} << 20, kLargestSlab = int64_t{32} << 20;

  explicit SlabAllocator(std::shared_ptr<Allocator> upstream) : upstream_(std::move(upstream)) {}

  absl::StatusOr<void *> allocate(int64_t bytes, int64_t alignment) override;
  void free(void *pointer, int64_t bytes) override;
  // reserved_bytes counts slabs whole, but for what blocks are rounded up by.
  AllocatorStats stats() const override;

private:
  // In a slab; null where there is none to be had.
  void *cut(int64_t bytes);

  std::shared_ptr<Allocator> upstream_;
  AllocationCounters counters_;
  mutable std::mutex mutex_;
  Pieces pieces_;
  std::map<char *, int64_t> slabs_; // where one begins, its bytes
  int64_t slab_bytes_ = 0, cut_bytes_ = 0;
};

} // namespace weft::runtime
