// Keeps freed blocks for reuse.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "runtime/memory/counters.h"
#include "runtime/memory/pieces.h"

namespace weft::runtime {

struct CachingAllocatorOptions {
  // The most bytes kept unused, beside those that are pinned: these cannot go, and would leave no
  // room for blocks that are used over and over. A training loop frees and takes the same sizes
  // over and over: what one step frees covers the next, and beyond a GiB the cost of a system call
  // is small against that of the work on such blocks.
  int64_t max_cached_bytes = int64_t{1} << 30;
  // Of the unused blocks of a class the one with the lowest address is taken, in place of the one
  // that was freed last: a loop finds the same blocks in each of its rounds.
  bool lowest_address_first = false;
  // From this size on a request may get a part of an unused block. Programs whose sizes vary hold
  // such blocks most of all; smaller ones are of few classes, and found in less time.
  int64_t split_bytes = int64_t{1} << 20;
};

// Sizes are rounded up to classes: multiples of 64 bytes up to 512, then eight classes to each
// power of two (at most 1/8 is lost), and whole pages of 64 KiB from 1 MiB on. A freed block waits
// in the list of its class; the least recently freed go first when the bound is passed, and all go
// when the upstream allocator has no memory left.
// Large blocks are cut, and grow together again when parts that meet are free (pieces.h). Unused
// parts of one that is in use are pinned: they cannot go. No block is cut any more once a request
// has failed though as many bytes were pinned.
class CachingAllocator : public Allocator {
public:
  explicit CachingAllocator(std::shared_ptr<Allocator> upstream,
                            CachingAllocatorOptions options = {});
  // Every block must have been freed.
  ~CachingAllocator() override;

  absl::StatusOr<void *> allocate(int64_t bytes, int64_t alignment) override;
  void free(void *pointer, int64_t bytes) override;
  // live_bytes counts what was asked for; reserved_bytes what upstream gave, pinned_bytes with it.
  AllocatorStats stats() const override;

  // Gives unused blocks back, the least recently freed first, until at most `keep_bytes` are kept
  // beside those that are pinned.
  void trim(int64_t keep_bytes = 0);
  // Unused, those that are pinned included.
  int64_t cached_bytes() const;
  int64_t cached_blocks() const;
  const CachingAllocatorOptions &options() const {
    return options_;
  }
  // The bytes of the block that a request of `bytes` gets.
  static int64_t class_bytes(int64_t bytes);

private:
  struct Block {
    void *pointer;
    int64_t bytes;
  };
  using Blocks = std::list<Block>;
  using Unused = std::deque<Blocks::iterator>;
  static Unused::iterator at_address(Unused &blocks, const void *pointer);
  void trim_locked(int64_t keep_bytes);
  void *take_from_class(int64_t bytes);
  void *take_piece(int64_t bytes);
  void put_piece(void *piece, int64_t bytes);
  // The block is unused from now on.
  Blocks::iterator keep(void *block, int64_t bytes);

  std::shared_ptr<Allocator> upstream_;
  CachingAllocatorOptions options_;
  AllocationCounters counters_;
  mutable std::mutex mutex_;
  Blocks unused_; // least recently freed first
  Blocks spare_;  // entries for blocks that are freed next: as many as were used at once
  // In unused_'s order, or from the lowest address on.
  std::unordered_map<int64_t, Unused> by_class_;
  std::unordered_map<void *, int64_t> over_aligned_; // blocks of rare alignments are not kept
  Pieces pieces_;                                    // of large blocks
  std::unordered_map<void *, Blocks::iterator> whole_; // those of which nothing is in use
  bool cuts_ = true;
  int64_t cached_bytes_ = 0;
  int64_t pinned_bytes_ = 0; // of them
  int64_t reserved_bytes_ = 0;
};

} // namespace weft::runtime
