// What passes ask of attention and its derivative.
#pragma once

#include "dialects/weft/ir/SizeNames.h"
#include "mlir/IR/Operation.h"

namespace weft::ir {

// weft.attention or weft.attention_gradient.
bool isAttention(mlir::Operation *op);
// How many matrices of queries [..., Tq, D] such an op has, of at least one leading dim; where the
// first one's size varies, at the smallest of its range. Negative where no range is known.
int64_t smallestMatrixCount(mlir::Operation *op);

// How many queries, and how many keys, a matrix of such an op has.
Dim queryCount(mlir::Operation *op);
Dim keyCount(mlir::Operation *op);
// Whether the number of queries of such an op varies.
bool variesInLength(mlir::Operation *op);
// Why no kernel serves all those lengths; empty: nothing but these two numbers varies. A kernel
// reads no mask with both, but one that has a column for each key that there may be.
llvm::StringRef whyNoLengths(mlir::Operation *op);

} // namespace weft::ir
