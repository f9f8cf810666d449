// Formulas that the decompositions of composite ops share with their derivatives. One spelling on
// both sides lets CSE see that a derivative recomputes what the decomposed forward op has.
#pragma once

#include "dialects/weft/rules/Rules.h"

namespace weft::ir {

// A dim as an index into `rank` dims: negative ones count from the end.
inline int64_t wrapDim(int64_t dim, int64_t rank) {
  return dim < 0 ? dim + rank : dim;
}
// The last `count` dims of `rank`.
llvm::SmallVector<int64_t> lastDims(int64_t rank, int64_t count);
// Dims 0, 2, 3, ... of `rank`: all but the channels of images.
llvm::SmallVector<int64_t> allButChannels(int64_t rank);
// Repeats x, a reduction of a tensor of dims `full` over some of them, to those dims again.
Val unreduce(Val x, llvm::ArrayRef<Dim> full, llvm::ArrayRef<int64_t> reduced);
// Divides x, a reduction of a tensor of dims `full` over some of them, by the number of elements
// that went into each of its own.
Val divideByCount(Val x, llvm::ArrayRef<Dim> full, llvm::ArrayRef<int64_t> reduced);
// Whether it is f16 or bf16, which are computed and counted in f32 and rounded once; what it is
// computed in; such a value in that, others as they are. And back, to the element type of `like`.
bool isNarrow(mlir::Type element);
mlir::Type wideElement(mlir::Type element);
Val widen(Val x);
mlir::Value narrowTo(Val x, mlir::Value like);
// Zeros of another shape, of x's element type.
Val zerosOf(Val x, llvm::ArrayRef<Dim> dims);
// 0 where x is -inf, else x: what a row that sees nothing subtracts instead of its maximum, lest
// -inf - -inf gives NaN.
Val zeroIfMinusInfinity(Val x);

// scale * query key^T + mask, [..., Tq, Tk]; -inf where the mask or causality hides the key. mask
// may be null. Null where a causal mask needs Tk - Tq and these are different symbols.
Val attentionScores(Val query, Val key, Val mask, bool causal, double scale);

// The targets of a cross_entropy over so many classes; a run fails where one is neither a class nor
// ignored.
Val checkedTargets(Val targets, int64_t classes, int64_t ignored);
// Whether they are what is ignored; none is where their type does not hold it.
Val isIgnored(Val targets, int64_t ignored);

// For class scores of the given dims [..., C]: whether the last index equals the row's target;
// targets: [...], integer.
Val isTarget(Val targets, llvm::ArrayRef<Dim> dims);

// Normal samples of two streams of uniform ones in [0, 1) (Box and Muller 1958).
Val normalOf(Val first, Val second);

// Whether a convolution, or one of its gradients, has another decomposition, which adds up in another
// order, for some of the sizes that its named dims stand for (the module's weft.sizes) than for
// others, or for the same sizes where they are not named.
bool decomposesBySize(mlir::Operation *op);

} // namespace weft::ir
