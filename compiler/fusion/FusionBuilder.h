// Turns groups of ops into weft.fusion ops.
#pragma once

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace weft::compiler {

// The ops of one kernel, in block order. An op with `clone` set is copied into the kernel, since
// other kernels have it, too. Any other op belongs to one group only.
struct FusionGroup {
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::SmallVector<bool> clone;
};
using FusionGroups = std::vector<FusionGroup>;

// Replaces each group by a weft.fusion, erases originals of clones that nobody reads any more, and
// puts the block into topological order. Ops in no group stay as they are. Fails, with an error at
// the block's parent, if groups need each other's results in a circle. Linear in ops and uses.
llvm::LogicalResult buildFusions(mlir::Block &block, const FusionGroups &groups);

} // namespace weft::compiler
