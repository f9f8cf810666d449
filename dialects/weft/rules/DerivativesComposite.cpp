// Derivative rules of the composite ops. Each is written so that, for the last dims of its input,
// its formula is one row-wise fusion: full-size values, one value a row, and sums over rows at the
// end.
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/rules/Composites.h"

namespace weft::ir {

using namespace mlir;

LogicalResult SoftmaxOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  Val y = ctx.result(0), g = ctx.g();
  SmallVector<int64_t> dims{wrapDim(ctx.properties<SoftmaxOp>().dim.getInt(), y.rank())};
  ctx.grad(0, y * (g - unreduce(sum(g * y, dims), dimsOf(y), dims)));
  return success();
}

LogicalResult LogSoftmaxOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  Val y = ctx.result(0), g = ctx.g();
  SmallVector<int64_t> dims{wrapDim(ctx.properties<LogSoftmaxOp>().dim.getInt(), y.rank())};
  ctx.grad(0, g - exp(y) * unreduce(sum(g, dims), dimsOf(y), dims));
  return success();
}

// With h = (x - mean) rstd and c = g weight: dx = rstd (c - mean(c) - h mean(c h)), dweight = sum(g
// h), dbias = sum(g), the sums over rows. mean and rstd are results with cotangents of their own (a
// second derivative brings them): d mean / dx = 1 / n, d rstd / dx = -rstd^2 h / n.
LogicalResult LayerNormOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  enum { kInput, kWeight, kBias };
  Dims extents = dimsOf(ctx.operandType(kInput));
  int64_t rank = extents.size(), count = ctx.properties<LayerNormOp>().normalized_rank.getInt();
  const auto &segments = ctx.properties<LayerNormOp>().operandSegmentSizes;
  bool hasWeight = segments[kWeight] != 0, hasBias = segments[kBias] != 0;
  int64_t weightIndex = 1, biasIndex = hasWeight ? 2 : 1;
  SmallVector<int64_t> dims = lastDims(rank, count);

  auto full = [&](Val row) {
    return unreduce(row, extents, dims);
  };
  auto overRows = [&](Val x) {
    return sumToDims(x, ArrayRef<Dim>(extents).take_back(count));
  };
  auto perElement = [&](Val row) {
    return divideByCount(row, extents, dims);
  };
  bool needsInput = ctx.needs(kInput), needsWeight = hasWeight && ctx.needs(weightIndex);
  if (hasBias && ctx.hasG(0) && ctx.needs(biasIndex))
    ctx.grad(biasIndex, overRows(ctx.g(0)));
  if (!needsInput && !needsWeight)
    return success();

  Val rstd = ctx.result(2), normalized;
  if (ctx.hasG(0) || ctx.hasG(2))
    normalized = (ctx.operand(kInput) - full(ctx.result(1))) * full(rstd);
  if (needsWeight && ctx.hasG(0))
    ctx.grad(weightIndex, overRows(ctx.g(0) * normalized));
  if (!needsInput)
    return success();

  // dx = a + h b with one value a row in `a` and `b`, beside rstd c.
  Val dx, rowTerm, rowFactor;
  if (ctx.hasG(0)) {
    Val c = hasWeight ? ctx.g(0) * broadcastTo(ctx.operand(weightIndex), extents) : ctx.g(0);
    dx = c * full(rstd);
    rowTerm = -(rstd * perElement(sum(c, dims)));
    rowFactor = -(rstd * perElement(sum(c * normalized, dims)));
  }
  auto accumulate = [](Val &to, Val term) {
    to = to ? to + term : term;
  };
  if (ctx.hasG(1))
    accumulate(rowTerm, perElement(ctx.g(1)));
  if (ctx.hasG(2))
    accumulate(rowFactor, -perElement(ctx.g(2) * rstd * rstd));
  if (rowTerm)
    accumulate(dx, full(rowTerm));
  if (rowFactor)
    accumulate(dx, normalized * full(rowFactor));
  if (dx)
    ctx.grad(kInput, dx);
  return success();
}

// One op gives the gradients of query, key and value: backends may compute it without the matrix of
// scores. Where the mask wants a gradient there is such a matrix anyway, and where log_sum_exp
// alone has one the formula is shorter: with p = exp(scores - log_sum_exp), recomputed as Dao et
// al. 2022 do, dvalue = p^T g, dp = g value^T, dscores = p (dp - rowsum(p dp) + g_log_sum_exp).
LogicalResult AttentionOp::differentiate(GradContext &ctx) {
  const auto &p = ctx.properties<AttentionOp>();
  double scale = p.scale.getValueAsDouble();
  bool hasMask = ctx.numOperands() > 3, causal = p.causal && p.causal.getValue();
  bool maskNeeds = hasMask && ctx.needs(3) && isa<FloatType>(ctx.operandType(3).getElementType());
  Dim queries = dimsOf(ctx.operandType(0)).end()[-2], keys = dimsOf(ctx.operandType(1)).end()[-2];
  if (causal && queries != keys && !(queries.isStatic() && keys.isStatic()))
    return ctx.noRule(AttentionOp::getOperationName(),
                      "it is causal over different symbolic lengths");
  if (ctx.hasG(0) && !maskNeeds) {
    if (!ctx.needs(0) && !ctx.needs(1) && !ctx.needs(2))
      return success();
    OpBuilder &b = ctx.builder();
    auto gradients = AttentionGradientOp::create(
        b, ctx.loc(), ctx.operandType(0), ctx.operandType(1), ctx.operandType(2), ctx.operand(0),
        ctx.operand(1), ctx.operand(2), ctx.result(0), ctx.result(1), ctx.g(0),
        hasMask ? ctx.operand(3) : Val(), ctx.hasG(1) ? ctx.g(1) : Val(), b.getBoolAttr(causal),
        p.scale);
    for (auto [i, gradient] : llvm::enumerate(gradients.getResults()))
      ctx.grad(i, ctx.at(gradient));
    return success();
  }
  ctx.roundOnce();
  Val query = ctx.operand(0), key = ctx.operand(1), mask = hasMask ? ctx.operand(3) : Val();
  Val scores = attentionScores(query, key, mask, causal, scale);
  SmallVector<int64_t> dims{scores.rank() - 1};
  Dims extents = dimsOf(scores);
  auto full = [&](Val row) {
    return unreduce(row, extents, dims);
  };
  auto toOperand = [&](Val gradient, int64_t i) {
    return sumToDims(gradient, dimsOf(ctx.operandType(i)));
  };
  Val probability = exp(scores - full(zeroIfMinusInfinity(ctx.result(1))));

  if (ctx.needs(2) && ctx.hasG(0))
    ctx.grad(2, toOperand(matmul(probability, ctx.g(0), true, false), 2));
  if (!ctx.needs(0) && !ctx.needs(1) && !maskNeeds)
    return success();

  Val dscores;
  if (ctx.hasG(0)) {
    Val dp = matmul(ctx.g(0), ctx.operand(2), false, true);
    Val row = sum(probability * dp, dims);
    if (ctx.hasG(1))
      row = row - ctx.g(1);
    dscores = probability * (dp - full(row));
  } else if (ctx.hasG(1)) {
    dscores = probability * full(ctx.g(1));
  } else {
    return success();
  }
  if (maskNeeds)
    ctx.grad(3, toOperand(dscores, 3));
  if (!ctx.needs(0) && !ctx.needs(1))
    return success();
  Val scaled = dscores * scale;
  if (ctx.needs(0))
    ctx.grad(0, toOperand(matmul(scaled, key, false, false), 0));
  if (ctx.needs(1))
    ctx.grad(1, toOperand(matmul(scaled, query, true, false), 1));
  return success();
}

// The gradient's own derivative. With S the scores, P = exp(S - log_sum_exp), E = g value^T -
// shared, shared = rowsum(g result) - g_log_sum_exp, T = P E: dquery = scale T key, dkey = scale
// T^T query, dvalue = P^T g. From their cotangents a, b, c follow those of T and P, then those of
// what they are made of.
LogicalResult AttentionGradientOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  const auto &p = ctx.properties<AttentionGradientOp>();
  enum { kQuery, kKey, kValue, kResult, kLogSumExp, kGradient };
  double scale = p.scale.getValueAsDouble();
  bool hasMask = p.operandSegmentSizes[6] != 0, hasSum = p.operandSegmentSizes[7] != 0,
       causal = p.causal && p.causal.getValue();
  int64_t maskIndex = 6, sumIndex = hasMask ? 7 : 6;
  Val query = ctx.operand(kQuery), key = ctx.operand(kKey), value = ctx.operand(kValue),
      result = ctx.operand(kResult), g = ctx.operand(kGradient);
  Val scores = attentionScores(query, key, hasMask ? ctx.operand(maskIndex) : Val(), causal, scale);
  if (!scores)
    return ctx.noRule(AttentionGradientOp::getOperationName(),
                      "it is causal over different symbolic lengths");
  SmallVector<int64_t> dims{scores.rank() - 1};
  Dims extents = dimsOf(scores), wide = dimsOf(g);
  auto add = [](Val &to, Val term) {
    to = to ? to + term : term;
  };
  Val P = exp(scores - unreduce(zeroIfMinusInfinity(ctx.operand(kLogSumExp)), extents, dims));
  Val shared = sum(g * result, dims);
  if (hasSum)
    shared = shared - ctx.operand(sumIndex);
  Val E = matmul(g, value, false, true) - unreduce(shared, extents, dims), T = P * E;
  Val ofT, ofP, ofQuery, ofKey, ofValue, ofG;
  if (ctx.hasG(kQuery)) {
    Val a = ctx.g(kQuery) * scale;
    add(ofT, matmul(a, key, false, true));
    add(ofKey, matmul(T, a, true, false));
  }
  if (ctx.hasG(kKey)) {
    Val b = ctx.g(kKey) * scale;
    add(ofT, matmul(query, b, false, true));
    add(ofQuery, matmul(T, b));
  }
  if (ctx.hasG(kValue)) {
    Val c = ctx.g(kValue);
    add(ofP, matmul(g, c, false, true));
    add(ofG, matmul(P, c));
  }
  if (ofT) {
    add(ofP, ofT * E);
    Val ofE = ofT * P, ofShared = -sum(ofE, dims);
    add(ofG, matmul(ofE, value) + unreduce(ofShared, wide, dims) * result);
    add(ofValue, matmul(ofE, g, true, false));
    ctx.grad(kResult, unreduce(ofShared, wide, dims) * g);
    if (hasSum)
      ctx.grad(sumIndex, -ofShared);
  }
  if (!ofP)
    return success();
  Val ofScores = ofP * P;
  ctx.grad(kLogSumExp, -sum(ofScores, dims));
  if (hasMask && isa<FloatType>(ctx.operandType(maskIndex).getElementType()))
    ctx.grad(maskIndex, sumToDims(ofScores, dimsOf(ctx.operandType(maskIndex))));
  add(ofQuery, matmul(ofScores, key) * scale);
  add(ofKey, matmul(ofScores, query, true, false) * scale);
  ctx.grad(kQuery, ofQuery);
  ctx.grad(kKey, ofKey);
  if (ofValue)
    ctx.grad(kValue, ofValue);
  ctx.grad(kGradient, ofG);
  return success();
}

// With p = exp(logits - log_sum_exp): dlogits = (p - onehot(target)) g, 0 in ignored rows, + p
// g_log_sum_exp.
LogicalResult CrossEntropyOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  Val logits = ctx.operand(0), targets = ctx.operand(1);
  SmallVector<int64_t> dims{logits.rank() - 1};
  Dims extents = dimsOf(logits);
  auto full = [&](Val row) {
    return unreduce(row, extents, dims);
  };
  Val probability = exp(logits - full(ctx.result(1)));
  if (!ctx.hasG(0)) {
    ctx.grad(0, probability * full(ctx.g(1)));
    return success();
  }
  int64_t ignored = ctx.properties<CrossEntropyOp>().ignore_index
                        ? ctx.properties<CrossEntropyOp>().ignore_index.getInt()
                        : -100;
  // The loss itself may never be computed: the derivative checks them as well, once where both are.
  if (extents.back().isStatic())
    targets = checkedTargets(targets, extents.back().size, ignored);
  Val g = ctx.g(0);
  Val loss = select(isIgnored(targets, ignored), g.constant(0), g);
  Val total = ctx.hasG(1) ? loss + ctx.g(1) : loss;
  Val spread = probability * full(total);
  ctx.grad(0, select(isTarget(targets, extents), spread - full(loss), spread));
  return success();
}

LogicalResult DropoutOp::differentiate(GradContext &ctx) {
  if (!ctx.hasG(0))
    return success();
  Val g = ctx.g(0);
  double rate = ctx.properties<DropoutOp>().rate.getValueAsDouble();
  // Nothing is kept at rate 1: a factor of infinity would make NaN of the next derivative's zeros.
  double factor = rate < 1 ? 1.0 / (1.0 - rate) : 0.0;
  ctx.grad(0, select(ctx.result(1), g * factor, g.constant(0)));
  return success();
}

} // namespace weft::ir
