// Formulas that the decompositions of composite ops share with their derivatives. One spelling on both sides lets CSE see that
// a derivative recomputes what the decomposed forward op has.
#pragma once

#include "dialects/weft/ir/Rules.h"

namespace weft::ir {

// A dim as an index into `rank` dims: negative ones count from the end.
inline int64_t wrapDim(int64_t dim, int64_t rank) { return dim < 0 ? dim + rank : dim; }
// The last `count` dims of `rank`.
llvm::SmallVector<int64_t> lastDims(int64_t rank, int64_t count);
// Repeats x, a reduction over `dims`, to the shape that was reduced.
Val unreduce(Val x, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims);
// 0 where x is -inf, else x: what a row that sees nothing subtracts instead of its maximum, lest -inf - -inf gives NaN.
Val zeroIfMinusInfinity(Val x);

// scale * query key^T + mask, [..., Tq, Tk]; -inf where the mask or causality hides the key. mask may be null.
Val attentionScores(Val query, Val key, Val mask, bool causal, double scale);

// For class scores of the given shape [..., C]: whether the last index equals the row's target; targets: [...], integer.
Val isTarget(Val targets, llvm::ArrayRef<int64_t> shape);

} // namespace weft::ir
