// Offsets in the arena.
#pragma once

#include "compiler/plan/Problem.h"

namespace weft::compiler {

struct Packing {
  std::string name;
  std::vector<int64_t> offsets; // one a lifetime
  int64_t arenaBytes = 0;
  // Of each lifetime the output (a value) in whose buffer its offset is; -1: in the arena. Empty:
  // all are in the arena.
  std::vector<int32_t> lenders = {};
  int64_t bound = 0; // no arena that these lifetimes need is smaller
};

// In the order of their begins, each into the smallest gap that fits, as an allocator would that
// sees one step after another. n log n.
Packing packInOrder(llvm::ArrayRef<Lifetime> lifetimes);
// One after another in the order of `sequence` (indices into lifetimes), each into the smallest gap
// between those placed before that live at the same time. Takes as long as there are such pairs.
Packing packBestFit(llvm::StringRef name, llvm::ArrayRef<Lifetime> lifetimes,
                    llvm::ArrayRef<int32_t> sequence);

// Where `bytes` fit into the smallest gap that `taken`, ranges of (offset, end), leave before
// `limit`; -1: nowhere. Sorts the ranges, which may overlap.
int64_t smallestGap(llvm::SmallVectorImpl<std::pair<int64_t, int64_t>> &taken, int64_t bytes,
                    int64_t limit);

// The smallest of several packings. `refined`: a local search for a smaller one follows, which
// takes most of the time; orders are compared without it.
Packing pack(llvm::ArrayRef<Lifetime> lifetimes, bool refined = true);

// The number of pairs that live at the same time, counted up to `limit`.
int64_t countConflicts(llvm::ArrayRef<Lifetime> lifetimes, int64_t limit);

} // namespace weft::compiler
