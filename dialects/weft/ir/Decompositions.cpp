// Decompositions of the composite ops, and the formulas that their derivatives share.
#include "dialects/weft/ir/Composites.h"

#include <cmath>
#include <limits>

#include "dialects/weft/ir/Weft.h"

namespace weft::ir {

using llvm::ArrayRef;
using llvm::SmallVector;
using mlir::FailureOr;
using mlir::OpBuilder;
using mlir::Value;

//===-- Shared formulas -----------------------------------------------------------------------===//

SmallVector<int64_t> lastDims(int64_t rank, int64_t count) { return llvm::to_vector(llvm::seq<int64_t>(rank - count, rank)); }

Val unreduce(Val x, ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> kept(shape);
  for (int64_t dim : dims) kept[dim] = 1;
  return broadcast(reshape(x, kept), shape);
}

Val zeroIfMinusInfinity(Val x) { return select(compare("eq", x, x.constant(-std::numeric_limits<double>::infinity())), x.constant(0), x); }

// Positions fit i32 wherever the extents do; half the width of i64 matters beside f32 in a vector register.
static mlir::Type positionType(Val like, ArrayRef<int64_t> extents) {
  bool narrow = llvm::all_of(extents, [](int64_t extent) { return extent < (int64_t(1) << 31); });
  return like.builder().getIntegerType(narrow ? 32 : 64);
}

Val attentionScores(Val query, Val key, Val mask, bool causal, double scale) {
  Val scores = matmul(query, key, false, true) * scale;
  ArrayRef<int64_t> shape = scores.shape();
  int64_t rank = scores.rank();
  Val hidden = scores.constant(-std::numeric_limits<double>::infinity());
  if (mask) {
    if (mask.type().getElementType().isInteger(1)) scores = select(broadcast(mask, shape), scores, hidden);
    else scores = scores + broadcast(cast(mask, scores.type().getElementType()), shape);
  }
  if (causal) {
    // Query i sees key j if j <= i + Tk - Tq.
    mlir::Type position = positionType(scores, shape.take_back(2));
    Val row = iota(scores, shape, rank - 2, position), column = iota(scores, shape, rank - 1, position);
    double shift = static_cast<double>(shape[rank - 1] - shape[rank - 2]);
    scores = select(compare("le", column, shift == 0 ? row : row + shift), scores, hidden);
  }
  return scores;
}

Val isTarget(Val targets, ArrayRef<int64_t> shape) {
  mlir::Type position = positionType(targets, shape.take_back(1));
  SmallVector<int64_t> dims{static_cast<int64_t>(shape.size()) - 1};
  return compare("eq", iota(targets, shape, dims[0], position), unreduce(cast(targets, position), shape, dims));
}

//===-- The accumulating type -----------------------------------------------------------------===//

// f16 and bf16 are computed in f32 and rounded once.
static Val widen(Val x) {
  mlir::Type element = x.type().getElementType();
  bool narrow = mlir::isa<mlir::FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
  return narrow ? cast(x, x.builder().getF32Type()) : x;
}

static Value narrowTo(Val x, Value like) {
  mlir::Type element = mlir::cast<mlir::RankedTensorType>(like.getType()).getElementType();
  return x.type().getElementType() == element ? x : cast(x, element);
}

//===-- Reductions and normalizations ---------------------------------------------------------===//

FailureOr<SmallVector<Value>> ReduceMeanOp::decompose(OpBuilder &b) {
  Val x = widen(Val(b, getLoc(), getInput()));
  double count = 1;
  for (int64_t dim : getDims()) count *= static_cast<double>(x.shape()[dim]);
  return SmallVector<Value>{narrowTo(sum(x, getDims()) / count, getResult())};
}

FailureOr<SmallVector<Value>> SoftmaxOp::decompose(OpBuilder &b) {
  Val x = widen(Val(b, getLoc(), getInput()));
  SmallVector<int64_t> dims{wrapDim(getDim(), x.rank())};
  Val e = exp(x - unreduce(max(x, dims), x.shape(), dims));
  return SmallVector<Value>{narrowTo(e / unreduce(sum(e, dims), x.shape(), dims), getResult())};
}

FailureOr<SmallVector<Value>> LogSoftmaxOp::decompose(OpBuilder &b) {
  Val x = widen(Val(b, getLoc(), getInput()));
  SmallVector<int64_t> dims{wrapDim(getDim(), x.rank())};
  Val shifted = x - unreduce(max(x, dims), x.shape(), dims);
  return SmallVector<Value>{narrowTo(shifted - unreduce(log(sum(exp(shifted), dims)), x.shape(), dims), getResult())};
}

FailureOr<SmallVector<Value>> LayerNormOp::decompose(OpBuilder &b) {
  Val x = widen(Val(b, getLoc(), getInput()));
  SmallVector<int64_t> dims = lastDims(x.rank(), getNormalizedRank());
  double count = 1;
  for (int64_t dim : dims) count *= static_cast<double>(x.shape()[dim]);
  auto full = [&](Val row) { return unreduce(row, x.shape(), dims); };
  Val mean = sum(x, dims) / count;
  Val centered = x - full(mean);
  Val rstd = rsqrt(sum(centered * centered, dims) / count + getEps().convertToDouble());
  Val y = centered * full(rstd);
  if (Value weight = getWeight()) y = y * broadcast(widen(x.at(weight)), x.shape());
  if (Value bias = getBias()) y = y + broadcast(widen(x.at(bias)), x.shape());
  return SmallVector<Value>{narrowTo(y, getResult()), narrowTo(mean, getMean()), narrowTo(rstd, getRstd())};
}

//===-- Attention and losses ------------------------------------------------------------------===//

FailureOr<SmallVector<Value>> AttentionOp::decompose(OpBuilder &b) {
  Val query = widen(Val(b, getLoc(), getQuery()));
  Val mask = getMask() ? query.at(getMask()) : Val();
  Val scores = attentionScores(query, widen(query.at(getKey())), mask, getCausal(), getScale().convertToDouble());
  SmallVector<int64_t> dims{scores.rank() - 1};
  auto full = [&](Val row) { return unreduce(row, scores.shape(), dims); };
  // A row that sees nothing: all e are 0, their sum is 0, its result 0 / 1, its log_sum_exp log(0).
  Val largest = zeroIfMinusInfinity(max(scores, dims));
  Val e = exp(scores - full(largest));
  Val total = sum(e, dims);
  Val divisor = select(compare("eq", total, total.constant(0)), total.constant(1), total);
  Val result = matmul(e / full(divisor), widen(query.at(getValue())));
  return SmallVector<Value>{narrowTo(result, getResult()), narrowTo(largest + log(total), getLogSumExp())};
}

FailureOr<SmallVector<Value>> CrossEntropyOp::decompose(OpBuilder &b) {
  Val logits = widen(Val(b, getLoc(), getLogits())), targets = logits.at(getTargets());
  SmallVector<int64_t> dims{logits.rank() - 1};
  Val largest = max(logits, dims);
  Val shifted = logits - unreduce(largest, logits.shape(), dims);
  Val logTotal = log(sum(exp(shifted), dims));
  // log(total) - (x - max), not (max + log(total)) - x: the large terms cancel before they are rounded.
  Val zero = shifted.constant(0);
  Val chosen = sum(select(isTarget(targets, logits.shape()), shifted, zero), dims);
  Val loss = logTotal - chosen;
  // A kernel cannot raise: a target outside [0, C), which reference evaluation reports, makes the loss NaN.
  Val none = loss.constant(std::numeric_limits<double>::quiet_NaN());
  Val tooSmall = compare("lt", targets, targets.constant(0));
  Val tooLarge = compare("ge", targets, targets.constant(static_cast<double>(logits.shape().back())));
  loss = select(tooSmall, none, select(tooLarge, none, loss));
  Val ignored = compare("eq", targets, targets.constant(static_cast<double>(static_cast<int64_t>(getIgnoreIndex()))));
  loss = select(ignored, loss.constant(0), loss);
  return SmallVector<Value>{narrowTo(loss, getLoss()), narrowTo(largest + logTotal, getLogSumExp())};
}

//===-- Random --------------------------------------------------------------------------------===//

static Val uniform(Val like, Value state, ArrayRef<int64_t> shape, mlir::Type element, int64_t offset) {
  auto type = mlir::RankedTensorType::get(shape, element);
  return like.at(RandomUniformOp::create(like.builder(), like.loc(), type, state, offset));
}

FailureOr<SmallVector<Value>> DropoutOp::decompose(OpBuilder &b) {
  Val x = widen(Val(b, getLoc(), getInput()));
  double rate = getRate().convertToDouble();
  // Samples are multiples of 2^-24; the next one at or above the rate is exact in f32, so that every dtype keeps the same elements.
  double threshold = std::ceil(std::ldexp(rate, 24)) * std::ldexp(1.0, -24);
  Val sample = uniform(x, getState(), x.shape(), b.getF32Type(), getOffset());
  Val keep = compare("ge", sample, sample.constant(threshold));
  return SmallVector<Value>{narrowTo(select(keep, x / (1.0 - rate), x.constant(0)), getResult()), keep};
}

// cos(2 pi u) for u in [0, 1): with t = 1/4 - |u - 1/2|, which is exact for multiples of 2^-24, it is -sin(2 pi t), and 2 pi t
// lies in [-pi/2, pi/2]. There the Taylor series of sin up to degree 13 (f32) or 21 (f64) is off by less than its rounding.
static Val cosineOfTurn(Val u) {
  auto absolute = [&](Val x) { return x.at(AbsOp::create(x.builder(), x.loc(), x)); };
  Val angle = (0.25 - absolute(u - 0.5)) * (2 * M_PI);
  Val square = angle * angle;
  int degree = u.type().getElementType().isF64() ? 21 : 13;
  auto coefficient = [&](int k) { return ((k / 2) % 2 ? -1.0 : 1.0) / std::tgamma(k + 1.0); };
  Val series = square.constant(coefficient(degree));
  for (int k = degree - 2; k >= 1; k -= 2) series = series * square + coefficient(k);
  return -(angle * series);
}

FailureOr<SmallVector<Value>> RandomNormalOp::decompose(OpBuilder &b) {
  auto type = mlir::cast<mlir::RankedTensorType>(getType());
  mlir::Type element = type.getElementType().isF64() ? b.getF64Type() : b.getF32Type();
  int64_t blocks = (type.getNumElements() + 63) / 64 * 16, offset = getOffset();
  Val place(b, getLoc(), getState());
  Val u1 = 1.0 - uniform(place, getState(), type.getShape(), element, offset);
  Val u2 = uniform(place, getState(), type.getShape(), element, offset + blocks);
  return SmallVector<Value>{narrowTo(sqrt(-2.0 * log(u1)) * cosineOfTurn(u2), getResult())};
}

} // namespace weft::ir
