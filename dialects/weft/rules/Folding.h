// Folding by evaluation. The limits stand here.
#pragma once

#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/Operation.h"

namespace weft::ir {

// A fold may write out at most this many elements that are not all equal: constants live in the
// context and in every dump, so a fold that saves a small kernel must not put a large tensor there.
// Enough for shapes, permutations, small masks and tables.
inline constexpr int64_t kMaxFoldedElements = 1024;

// The value of an elementwise op whose operands are all constant: a splat where they are splats,
// else of at most kMaxFoldedElements. `exact` says whether reference evaluation gives what every
// backend computes, bit for bit; else nothing folds.
mlir::OpFoldResult foldElementwise(mlir::Operation *op, llvm::ArrayRef<mlir::Attribute> operands,
                                   bool exact);

// The same for ops that only move elements: a splat stays a splat. Repeats of more than one number
// are not written out.
mlir::OpFoldResult foldMovement(mlir::Operation *op, llvm::ArrayRef<mlir::Attribute> operands);

} // namespace weft::ir
