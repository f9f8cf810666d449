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

// The mask of such an op; null where it has none.
mlir::Value maskOf(mlir::Operation *op);
// The leading dim of its queries, [n, ..., Tq, D]; 1 where there is none but these two.
Dim leadingDim(mlir::Operation *op);
// How many queries, and how many keys, a matrix of such an op has.
Dim queryCount(mlir::Operation *op);
Dim keyCount(mlir::Operation *op);
// Whether the number of queries of such an op varies.
bool variesInLength(mlir::Operation *op);
// Why no kernel serves all those lengths; empty: nothing but these two numbers varies, and maybe
// the leading dim. A kernel reads no mask with both numbers, but one that has a column for each key
// that there may be.
llvm::StringRef whyNoLengths(mlir::Operation *op);

} // namespace weft::ir
