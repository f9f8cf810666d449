// Reference evaluation of composites: the formulas of their records, in float64.
#include <algorithm>

#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/reference/EvaluationIndex.h"

namespace weft::ir {

using namespace mlir;

// log(sum(exp(row))) as the row's largest element and what is left when it is taken out: kept
// apart, since a large element would swallow the rest's digits.
struct LogSumExp {
  double largest = -std::numeric_limits<double>::infinity(), rest = 0;
  double total() const {
    return largest + rest;
  }
  // x - total().
  double below(double x) const {
    return (x - largest) - rest;
  }
};

// -inf where all elements are.
static LogSumExp logSumExp(ArrayRef<double> row) {
  LogSumExp result;
  for (double x : row)
    result.largest = maximum_of(result.largest, x);
  if (std::isinf(result.largest) && result.largest < 0)
    return result;
  double sum = 0;
  for (double x : row)
    sum += std::exp(x - result.largest);
  result.rest = std::log(sum);
  return result;
}

static std::vector<double> rowOf(const HostTensor &x, const DimSplit &split, int64_t o, int64_t i) {
  std::vector<double> row(split.size);
  for (int64_t k = 0; k < split.size; ++k)
    row[k] = x.getDouble(split.at(o, k, i));
  return row;
}

// finish(x - log_sum_exp of its row) along dim.
template <typename Finish>
static LogicalResult softmaxLike(EvalContext &ctx, int64_t dim, Finish finish) {
  DimSplit split(ctx.result().shape, dim);
  for (int64_t o = 0; o < split.outer; ++o)
    for (int64_t i = 0; i < split.inner; ++i) {
      std::vector<double> row = rowOf(ctx.operand(0), split, o, i);
      LogSumExp total = logSumExp(row);
      for (int64_t k = 0; k < split.size; ++k)
        ctx.result().set(split.at(o, k, i), finish(total.below(row[k])));
    }
  return success();
}

LogicalResult SoftmaxOp::evaluate(EvalContext &ctx) {
  return softmaxLike(ctx, getDim(), [](double x) { return std::exp(x); });
}
LogicalResult LogSoftmaxOp::evaluate(EvalContext &ctx) {
  return softmaxLike(ctx, getDim(), [](double x) { return x; });
}

// The index along dim of the first element that `better` prefers to all others; a NaN wins over all
// numbers.
template <typename T, typename Better>
static void firstBest(EvalContext &ctx, int64_t dim, Better better) {
  const HostTensor &x = ctx.operand(0);
  DimSplit split(x.shape, dim);
  for (int64_t o = 0; o < split.outer; ++o)
    for (int64_t i = 0; i < split.inner; ++i) {
      int64_t best = 0;
      T value = EvalContext::load<T>(x, split.at(o, 0, i));
      for (int64_t k = 1; k < split.size && value == value; ++k) {
        T next = EvalContext::load<T>(x, split.at(o, k, i));
        if (better(next, value) || next != next)
          best = k, value = next;
      }
      ctx.result().setInt(o * split.inner + i, best);
    }
}
template <typename Better>
static LogicalResult evaluateArg(EvalContext &ctx, int64_t dim, Better better) {
  if (ctx.operand(0).shape[dim] == 0)
    return ctx.error("is along a dimension without elements");
  if (is_floating(ctx.operand(0).dtype))
    firstBest<double>(ctx, dim, better);
  else
    firstBest<int64_t>(ctx, dim, better);
  return success();
}
LogicalResult ArgMaxOp::evaluate(EvalContext &ctx) {
  return evaluateArg(ctx, getDim(), std::greater<>());
}
LogicalResult ArgMinOp::evaluate(EvalContext &ctx) {
  return evaluateArg(ctx, getDim(), std::less<>());
}

// The first `count` indices of each row in order: by value, NaN last, equal ones as they stand.
template <typename T> static void sortRows(EvalContext &ctx, int64_t dim, bool descending) {
  const HostTensor &x = ctx.operand(0);
  DimSplit split(x.shape, dim), kept(ctx.result().shape, dim);
  std::vector<T> row(split.size);
  std::vector<int64_t> order(split.size);
  auto less = [&](int64_t a, int64_t b) {
    return row[b] != row[b] ? row[a] == row[a] : row[a] < row[b];
  };
  for (int64_t o = 0; o < split.outer; ++o)
    for (int64_t i = 0; i < split.inner; ++i) {
      for (int64_t k = 0; k < split.size; ++k) {
        row[k] = EvalContext::load<T>(x, split.at(o, k, i));
        order[k] = k;
      }
      std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        if (descending ? less(b, a) : less(a, b))
          return true;
        return !(descending ? less(a, b) : less(b, a)) && a < b;
      });
      for (int64_t k = 0; k < kept.size; ++k)
        ctx.result().setInt(kept.at(o, k, i), order[k]);
    }
}
LogicalResult ArgSortOp::evaluate(EvalContext &ctx) {
  if (is_floating(ctx.operand(0).dtype))
    sortRows<double>(ctx, getDim(), getDescending());
  else
    sortRows<int64_t>(ctx, getDim(), getDescending());
  return success();
}

LogicalResult LayerNormOp::evaluate(EvalContext &ctx) {
  const HostTensor &x = ctx.operand(0);
  int64_t next = 1;
  const HostTensor *weight = getWeight() ? &ctx.operand(next++) : nullptr,
                   *bias = getBias() ? &ctx.operand(next++) : nullptr;
  int64_t rows = ctx.result(1).size(), columns = 1;
  for (int64_t n : ArrayRef(x.shape).take_back(getNormalizedRank()))
    columns *= n;
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < columns; ++c)
      sum += x.getDouble(r * columns + c);
    double mean = sum / static_cast<double>(columns);
    for (int64_t c = 0; c < columns; ++c)
      squares += std::pow(x.getDouble(r * columns + c) - mean, 2);
    double rstd =
        1 / std::sqrt(squares / static_cast<double>(columns) + getEps().convertToDouble());
    ctx.result(1).set(r, mean);
    ctx.result(2).set(r, rstd);
    for (int64_t c = 0; c < columns; ++c) {
      double y = (x.getDouble(r * columns + c) - mean) * rstd;
      if (weight)
        y *= weight->getDouble(c);
      if (bias)
        y += bias->getDouble(c);
      ctx.result(0).set(r * columns + c, y);
    }
  }
  return success();
}

// The score of key k; coords: of the query, and a last one for the key.
static double maskedScore(double score, const HostTensor *mask, Coords &coords, int64_t k,
                          bool isLater) {
  const double hidden = -std::numeric_limits<double>::infinity();
  coords.back() = k;
  if (mask) {
    int64_t position = broadcastPosition(coords, mask->shape);
    if (mask->dtype == DType::kBool)
      score = mask->getInt(position) ? score : hidden;
    else
      score += mask->getDouble(position);
  }
  return isLater ? hidden : score;
}

LogicalResult AttentionOp::evaluate(EvalContext &ctx) {
  const HostTensor &query = ctx.operand(0), &key = ctx.operand(1), &value = ctx.operand(2);
  const HostTensor *mask = getMask() ? &ctx.operand(3) : nullptr;
  int64_t lengthQ = query.shape.end()[-2], lengthK = key.shape.end()[-2],
          features = query.shape.end()[-1], width = value.shape.end()[-1];
  int64_t rows = ctx.result(1).size();
  std::vector<double> scores(lengthK);
  for (int64_t r = 0; r < rows; ++r) {
    int64_t batch = r / lengthQ, q = r % lengthQ;
    Coords coords = coordsOf(r, ctx.result(1).shape);
    coords.push_back(0);
    for (int64_t k = 0; k < lengthK; ++k) {
      double score = 0;
      for (int64_t d = 0; d < features; ++d)
        score +=
            query.getDouble(r * features + d) * key.getDouble((batch * lengthK + k) * features + d);
      scores[k] = maskedScore(score * getScale().convertToDouble(), mask, coords, k,
                              getCausal() && k > q + lengthK - lengthQ);
    }
    double total = logSumExp(scores).total();
    ctx.result(1).set(r, total);
    bool seesNothing = std::isinf(total) && total < 0;
    for (int64_t d = 0; d < width; ++d) {
      double sum = 0;
      // A key that is left out weighs 0, and 0 times an infinity or a NaN is a NaN, as in the
      // product of matrices that this stands for.
      for (int64_t k = 0; k < lengthK; ++k)
        sum += (seesNothing ? 0 : std::exp(scores[k] - total)) *
               value.getDouble((batch * lengthK + k) * width + d);
      ctx.result(0).set(r * width + d, sum);
    }
  }
  return success();
}

LogicalResult AttentionGradientOp::evaluate(EvalContext &ctx) {
  const HostTensor &query = ctx.operand(0), &key = ctx.operand(1), &value = ctx.operand(2),
                   &result = ctx.operand(3), &logSumExp = ctx.operand(4), &g = ctx.operand(5);
  const HostTensor *mask = getMask() ? &ctx.operand(6) : nullptr,
                   *sumGradient = getSumGradient() ? &ctx.operand(mask ? 7 : 6) : nullptr;
  int64_t lengthQ = query.shape.end()[-2], lengthK = key.shape.end()[-2],
          features = query.shape.end()[-1], width = value.shape.end()[-1];
  double scale = getScale().convertToDouble();
  std::vector<double> dquery(query.size()), dkey(key.size()), dvalue(value.size());
  for (int64_t r = 0, rows = logSumExp.size(); r < rows; ++r) {
    int64_t batch = r / lengthQ, q = r % lengthQ;
    Coords coords = coordsOf(r, logSumExp.shape);
    coords.push_back(0);
    double total = logSumExp.getDouble(r), shared = sumGradient ? -sumGradient->getDouble(r) : 0;
    if (std::isinf(total) && total < 0)
      total = 0;
    for (int64_t d = 0; d < width; ++d)
      shared += g.getDouble(r * width + d) * result.getDouble(r * width + d);
    for (int64_t k = 0; k < lengthK; ++k) {
      int64_t at = batch * lengthK + k;
      double score = 0, dp = 0;
      for (int64_t d = 0; d < features; ++d)
        score += query.getDouble(r * features + d) * key.getDouble(at * features + d);
      score = maskedScore(score * scale, mask, coords, k, getCausal() && k > q + lengthK - lengthQ);
      double p = std::exp(score - total);
      for (int64_t d = 0; d < width; ++d) {
        dp += g.getDouble(r * width + d) * value.getDouble(at * width + d);
        dvalue[at * width + d] += p * g.getDouble(r * width + d);
      }
      double dscore = p * (dp - shared) * scale;
      for (int64_t d = 0; d < features; ++d) {
        dquery[r * features + d] += dscore * key.getDouble(at * features + d);
        dkey[at * features + d] += dscore * query.getDouble(r * features + d);
      }
    }
  }
  auto give = [&](int64_t i, ArrayRef<double> values) {
    for (auto [at, x] : llvm::enumerate(values))
      ctx.result(i).set(at, x);
  };
  give(0, dquery);
  give(1, dkey);
  give(2, dvalue);
  return success();
}

LogicalResult CrossEntropyOp::evaluate(EvalContext &ctx) {
  const HostTensor &logits = ctx.operand(0), &targets = ctx.operand(1);
  DimSplit split(logits.shape, static_cast<int64_t>(logits.shape.size()) - 1);
  for (int64_t r = 0, rows = targets.size(); r < rows; ++r) {
    std::vector<double> row = rowOf(logits, split, r, 0);
    LogSumExp total = logSumExp(row);
    // A row without a finite element that counts has no loss, since x - max is NaN.
    ctx.result(1).set(r, std::isinf(total.largest) ? std::numeric_limits<double>::quiet_NaN()
                                                   : total.total());
    int64_t target = targets.getInt(r);
    if (target == static_cast<int64_t>(getIgnoreIndex()))
      continue; // the loss stays 0
    if (target < 0 || target >= split.size)
      return ctx.badIndex("", target, r, 0, split.size, static_cast<int64_t>(getIgnoreIndex()));
    ctx.result(0).set(r, -total.below(row[target]));
  }
  return success();
}

LogicalResult DropoutOp::evaluate(EvalContext &ctx) {
  double rate = getRate().convertToDouble();
  for (int64_t i = 0, n = ctx.operand(0).size(); i < n; ++i) {
    bool keep = uniformSample(ctx.operand(1), getOffset(), i, DType::kFloat32) >= rate;
    ctx.result(0).set(i, keep ? ctx.operand(0).getDouble(i) / (1 - rate) : 0);
    ctx.result(1).setInt(i, keep);
  }
  return success();
}

} // namespace weft::ir
