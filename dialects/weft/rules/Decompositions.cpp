// Decompositions of the composite ops, and the formulas that their derivatives share.
#include "dialects/weft/rules/Composites.h"

#include <cmath>
#include <limits>

#include "dialects/weft/ir/Weft.h"

namespace weft::ir {

using namespace mlir;

//===-- Shared formulas -----------------------------------------------------------------------===//

SmallVector<int64_t> lastDims(int64_t rank, int64_t count) {
  return llvm::to_vector(llvm::seq<int64_t>(rank - count, rank));
}

Val unreduce(Val x, ArrayRef<Dim> full, ArrayRef<int64_t> reduced) {
  Dims kept(full);
  for (int64_t dim : reduced)
    kept[dim] = 1;
  return broadcastTo(reshapeTo(x, kept), full);
}

bool isNarrow(Type element) {
  return isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
}

Type wideElement(Type element) {
  return isNarrow(element) ? Float32Type::get(element.getContext()) : element;
}

Val widen(Val x) {
  return cast(x, wideElement(x.type().getElementType()));
}

Value narrowTo(Val x, Value like) {
  Type element = typeOf(like).getElementType();
  return x.type().getElementType() == element ? x : cast(x, element);
}

Val divideByCount(Val x, ArrayRef<Dim> full, ArrayRef<int64_t> reduced) {
  // A count beyond 65504 is an infinity in f16, one beyond 256 is rounded in bf16.
  Val wide = widen(x);
  if (llvm::all_of(reduced, [&](int64_t dim) { return full[dim].isStatic(); })) {
    double elements = 1;
    for (int64_t dim : reduced)
      elements *= static_cast<double>(full[dim].size);
    return Val(x.builder(), x.loc(), narrowTo(wide / elements, x));
  }
  return Val(x.builder(), x.loc(),
             narrowTo(wide / sum(broadcastTo(wide.constant(1, {}), full), reduced), x));
}

Val zerosOf(Val x, ArrayRef<Dim> dims) {
  if (!llvm::all_of(dims, [](const Dim &dim) { return dim.isStatic(); }))
    return broadcastTo(x.constant(0, {}), dims);
  return x.constant(0, llvm::map_to_vector(dims, [](const Dim &dim) { return dim.size; }));
}

Val zeroIfMinusInfinity(Val x) {
  return select(compare("eq", x, x.constant(-std::numeric_limits<double>::infinity())),
                x.constant(0), x);
}

// The index along one dim, as i32 where the dim is known to fit: half the width of i64 matters
// beside f32 in a vector register.
static Val positions(Val like, ArrayRef<Dim> dims, int64_t dim) {
  bool narrow = dims[dim].isStatic() && dims[dim].size < (int64_t(1) << 31);
  auto type = tensorOf(dims, like.builder().getIntegerType(narrow ? 32 : 64));
  return like.make<IotaOp>(type, dim);
}

Val attentionScores(Val query, Val key, Val mask, bool causal, double scale) {
  Val scores = matmul(query, key, false, true) * scale;
  Dims dims = dimsOf(scores);
  Val hidden = scores.constant(-std::numeric_limits<double>::infinity());
  if (mask) {
    if (mask.type().getElementType().isInteger(1))
      scores = select(broadcastTo(mask, dims), scores, hidden);
    else
      scores = scores + broadcastTo(cast(mask, scores.type().getElementType()), dims);
  }
  if (causal) {
    // Query i sees key j if j <= i + Tk - Tq.
    Dim queries = dims[dims.size() - 2], keys = dims.back();
    if (queries != keys && !(queries.isStatic() && keys.isStatic()))
      return Val();
    double shift = queries == keys ? 0 : static_cast<double>(keys.size - queries.size);
    Val column = positions(scores, dims, dims.size() - 1);
    Val row = cast(positions(scores, dims, dims.size() - 2), column.type().getElementType());
    scores = select(compare("le", column, shift == 0 ? row : row + shift), scores, hidden);
  }
  return scores;
}

Val checkedTargets(Val targets, int64_t classes, int64_t ignored) {
  OpBuilder &b = targets.builder();
  return targets.make<CheckIndexOp>(targets.type(), targets, b.getI64IntegerAttr(classes),
                                    b.getI64IntegerAttr(ignored),
                                    b.getStringAttr(CrossEntropyOp::getOperationName()));
}

Val isIgnored(Val targets, int64_t ignored) {
  return llvm::isIntN(targets.type().getElementTypeBitWidth(), ignored)
             ? compare("eq", targets, targets.integer(ignored))
             : compare("ne", targets, targets);
}

Val isTarget(Val targets, ArrayRef<Dim> dims) {
  int64_t last = dims.size() - 1;
  Val position = positions(targets, dims, last);
  return compare("eq", position,
                 unreduce(cast(targets, position.type().getElementType()), dims, {last}));
}

//===-- Reductions and normalizations ---------------------------------------------------------===//

FailureOr<SmallVector<Value>> ReduceMeanOp::decompose(OpBuilder &b) {
  Val x = widen(Val(b, getLoc(), getInput()));
  return SmallVector<Value>{
      narrowTo(divideByCount(sum(x, getDims()), dimsOf(x), getDims()), getResult())};
}

// The smallest of the positions along dim whose element is the best one, or NaN: one more sweep
// over rows that are in the cache.
template <typename Reduce>
static FailureOr<SmallVector<Value>> firstPosition(Val x, int64_t dim, Reduce best) {
  Dims extents = dimsOf(x);
  SmallVector<int64_t> dims{dim};
  Val index = positions(x, extents, dim);
  Val hit = compare("eq", x, unreduce(best(x, dims, false), extents, dims));
  if (isa<FloatType>(x.type().getElementType())) {
    Val isNan = compare("ne", x, x);
    hit = x.make<OrOp>(hit, isNan);
  }
  bool narrow = index.type().getElementType().isInteger(32);
  Val none = index.constant(static_cast<double>(narrow ? INT32_MAX : INT64_MAX));
  return SmallVector<Value>{cast(min(select(hit, index, none), dims), x.builder().getI64Type())};
}
FailureOr<SmallVector<Value>> ArgMaxOp::decompose(OpBuilder &b) {
  return firstPosition(Val(b, getLoc(), getInput()), getDim(), max);
}
FailureOr<SmallVector<Value>> ArgMinOp::decompose(OpBuilder &b) {
  return firstPosition(Val(b, getLoc(), getInput()), getDim(), min);
}

FailureOr<SmallVector<Value>> SoftmaxOp::decompose(OpBuilder &b) {
  Val x = widen(Val(b, getLoc(), getInput()));
  SmallVector<int64_t> dims{wrapDim(getDim(), x.rank())};
  Val e = exp(x - unreduce(max(x, dims), dimsOf(x), dims));
  // One division a row: a sum is at least 1, so that its inverse loses no range, and a product
  // costs a tenth of a quotient.
  return SmallVector<Value>{
      narrowTo(e * unreduce(1.0 / sum(e, dims), dimsOf(x), dims), getResult())};
}

FailureOr<SmallVector<Value>> LogSoftmaxOp::decompose(OpBuilder &b) {
  Val x = widen(Val(b, getLoc(), getInput()));
  SmallVector<int64_t> dims{wrapDim(getDim(), x.rank())};
  Val shifted = x - unreduce(max(x, dims), dimsOf(x), dims);
  return SmallVector<Value>{
      narrowTo(shifted - unreduce(log(sum(exp(shifted), dims)), dimsOf(x), dims), getResult())};
}

FailureOr<SmallVector<Value>> LayerNormOp::decompose(OpBuilder &b) {
  Val x = widen(Val(b, getLoc(), getInput()));
  SmallVector<int64_t> dims = lastDims(x.rank(), getNormalizedRank());
  Dims extents = dimsOf(x);
  auto full = [&](Val row) {
    return unreduce(row, extents, dims);
  };
  Val mean = divideByCount(sum(x, dims), extents, dims);
  Val centered = x - full(mean);
  Val rstd = rsqrt(divideByCount(sum(centered * centered, dims), extents, dims) +
                   getEps().convertToDouble());
  Val y = centered * full(rstd);
  if (Value weight = getWeight())
    y = y * broadcastTo(widen(x.at(weight)), extents);
  if (Value bias = getBias())
    y = y + broadcastTo(widen(x.at(bias)), extents);
  return SmallVector<Value>{narrowTo(y, getResult()), narrowTo(mean, getMean()),
                            narrowTo(rstd, getRstd())};
}

//===-- Attention and losses ------------------------------------------------------------------===//

FailureOr<SmallVector<Value>> AttentionOp::decompose(OpBuilder &b) {
  Val query = widen(Val(b, getLoc(), getQuery()));
  Val mask = getMask() ? query.at(getMask()) : Val();
  Val scores = attentionScores(query, widen(query.at(getKey())), mask, getCausal(),
                               getScale().convertToDouble());
  if (!scores)
    return emitOpError("is causal over different symbolic lengths, whose difference is not known");
  SmallVector<int64_t> dims{scores.rank() - 1};
  Dims extents = dimsOf(scores);
  auto full = [&](Val row) {
    return unreduce(row, extents, dims);
  };
  // A row that sees nothing: all e are 0, their sum is 0, its result 0 / 1, its log_sum_exp log(0).
  Val largest = zeroIfMinusInfinity(max(scores, dims));
  Val e = exp(scores - full(largest));
  Val total = sum(e, dims);
  Val divisor = select(compare("eq", total, total.constant(0)), total.constant(1), total);
  Val result = matmul(e * full(1.0 / divisor), widen(query.at(getValue())));
  return SmallVector<Value>{narrowTo(result, getResult()),
                            narrowTo(largest + log(total), getLogSumExp())};
}

FailureOr<SmallVector<Value>> AttentionGradientOp::decompose(OpBuilder &b) {
  Val query = widen(Val(b, getLoc(), getQuery()));
  auto wide = [&](Value value) {
    return widen(query.at(value));
  };
  Val key = wide(getKey()), value = wide(getValue()), g = wide(getGradient());
  double scale = getScale().convertToDouble();
  Val scores =
      attentionScores(query, key, getMask() ? query.at(getMask()) : Val(), getCausal(), scale);
  if (!scores)
    return emitOpError("is causal over different symbolic lengths, whose difference is not known");
  SmallVector<int64_t> dims{scores.rank() - 1};
  Dims extents = dimsOf(scores);
  auto full = [&](Val row) {
    return unreduce(row, extents, dims);
  };
  Val probability = exp(scores - full(zeroIfMinusInfinity(wide(getLogSumExp()))));
  Val row = sum(g * wide(getResult()), dims);
  if (Value sumGradient = getSumGradient())
    row = row - wide(sumGradient);
  Val dscores = probability * (matmul(g, value, false, true) - full(row)) * scale;
  return SmallVector<Value>{narrowTo(matmul(dscores, key), getQueryGradient()),
                            narrowTo(matmul(dscores, query, true, false), getKeyGradient()),
                            narrowTo(matmul(probability, g, true, false), getValueGradient())};
}

FailureOr<SmallVector<Value>> CrossEntropyOp::decompose(OpBuilder &b) {
  Val logits = widen(Val(b, getLoc(), getLogits()));
  SmallVector<int64_t> dims{logits.rank() - 1};
  Dims extents = dimsOf(logits);
  if (!extents.back().isStatic())
    return emitOpError("has a symbolic number of classes, which its bounds check cannot name");
  Val targets = checkedTargets(logits.at(getTargets()), extents.back().size,
                               static_cast<int64_t>(getIgnoreIndex()));
  Val largest = max(logits, dims);
  Val shifted = logits - unreduce(largest, extents, dims);
  Val logTotal = log(sum(exp(shifted), dims));
  // log(total) - (x - max), not (max + log(total)) - x: the large terms cancel before they are
  // rounded.
  Val zero = shifted.constant(0);
  Val chosen = sum(select(isTarget(targets, extents), shifted, zero), dims);
  Val loss = logTotal - chosen;
  loss = select(isIgnored(targets, static_cast<int64_t>(getIgnoreIndex())), loss.constant(0), loss);
  return SmallVector<Value>{narrowTo(loss, getLoss()),
                            narrowTo(largest + logTotal, getLogSumExp())};
}

//===-- Random --------------------------------------------------------------------------------===//

static Val uniform(Val like, Value state, RankedTensorType type, int64_t offset) {
  return like.make<RandomUniformOp>(type, state, offset);
}

FailureOr<SmallVector<Value>> DropoutOp::decompose(OpBuilder &b) {
  Val x = widen(Val(b, getLoc(), getInput()));
  double rate = getRate().convertToDouble();
  // Samples are multiples of 2^-24; the next one at or above the rate is exact in f32, so that
  // every dtype keeps the same elements.
  double threshold = std::ceil(std::ldexp(rate, 24)) * std::ldexp(1.0, -24);
  Val sample =
      uniform(x, getState(), cast<RankedTensorType>(withElementType(x.type(), b.getF32Type())),
              getOffset());
  Val keep = compare("ge", sample, sample.constant(threshold));
  return SmallVector<Value>{
      narrowTo(select(keep, x * (1.0 / (1.0 - rate)), x.constant(0)), getResult()), keep};
}

// cos(2 pi u) for u in [0, 1): with t = 1/4 - |u - 1/2|, which is exact for multiples of 2^-24, it
// is -sin(2 pi t), and 2 pi t lies in [-pi/2, pi/2]. There the Taylor series of sin up to degree 13
// (f32) or 21 (f64) is off by less than its rounding.
static Val cosineOfTurn(Val u) {
  auto absolute = [&](Val x) {
    return x.make<AbsOp>(x);
  };
  Val angle = (0.25 - absolute(u - 0.5)) * (2 * M_PI);
  Val square = angle * angle;
  int degree = u.type().getElementType().isF64() ? 21 : 13;
  auto coefficient = [&](int k) {
    return ((k / 2) % 2 ? -1.0 : 1.0) / std::tgamma(k + 1.0);
  };
  Val series = square.constant(coefficient(degree));
  for (int k = degree - 2; k >= 1; k -= 2)
    series = series * square + coefficient(k);
  return -(angle * series);
}

Val normalOf(Val first, Val second) {
  Val u1 = 1.0 - first;
  return sqrt(-2.0 * log(u1)) * cosineOfTurn(second);
}

FailureOr<SmallVector<Value>> RandomNormalOp::decompose(OpBuilder &b) {
  auto type = getType();
  Type element = type.getElementType().isF64() ? b.getF64Type() : b.getF32Type();
  if (!type.hasStaticShape())
    return emitOpError("has a symbolic size, so that its second stream's place is not known");
  int64_t blocks = (type.getNumElements() + 63) / 64 * 16, offset = getOffset();
  auto computed = cast<RankedTensorType>(withElementType(type, element));
  Val place(b, getLoc(), getState());
  Val first = uniform(place, getState(), computed, offset);
  Val second = uniform(place, getState(), computed, offset + blocks);
  return SmallVector<Value>{narrowTo(normalOf(first, second), getResult())};
}

} // namespace weft::ir
