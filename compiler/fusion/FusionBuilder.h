// Turns groups of ops into weft.fusion ops.
#pragma once

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace weft::compiler {

// Groups of ops of one block, disjoint; each lists its ops in block order. Ops in no group stay as they are.
using FusionGroups = llvm::SmallVector<llvm::SmallVector<mlir::Operation *>>;

// Replaces each group by a weft.fusion and puts the block into a topological order of what is left. Fails, with an error at the block's
// parent, when groups need each other's results in a circle. Linear in ops and uses.
llvm::LogicalResult buildFusions(mlir::Block &block, const FusionGroups &groups);

} // namespace weft::compiler
