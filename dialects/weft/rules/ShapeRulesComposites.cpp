// Shape and dtype rules and verifiers of composites.
#include "dialects/weft/rules/Composites.h"
#include "dialects/weft/rules/RuleChecks.h"

namespace weft::ir {

using namespace mlir;

using MaybeLocation = std::optional<Location>;
using Types = SmallVectorImpl<Type>;

LogicalResult SoftmaxOp::verify() {
  return RuleChecks(*this).dim(getDim(), getType(), "input");
}
LogicalResult LogSoftmaxOp::verify() {
  return RuleChecks(*this).dim(getDim(), getType(), "input");
}

template <typename Op>
static LogicalResult inferArg(MLIRContext *context, MaybeLocation loc, typename Op::Adaptor op,
                              Types &types) {
  RuleChecks check(loc, Op::getOperationName());
  RankedTensorType input = check.tensor(op.getInput(), "input");
  if (!input || failed(check.dim(op.getDim(), input, "input")))
    return failure();
  Dims dims = dimsOf(input);
  if (dims[op.getDim()] == Dim(0))
    return check.error("input is " + spell(input) + ": dimension " + Twine(op.getDim()) +
                       " has no elements to choose from");
  dims.erase(dims.begin() + op.getDim());
  types.push_back(tensorOf(dims, IntegerType::get(context, 64)));
  return success();
}
LogicalResult ArgMaxOp::inferReturnTypes(MLIRContext *context, MaybeLocation loc, Adaptor op,
                                         Types &types) {
  return inferArg<ArgMaxOp>(context, loc, op, types);
}
LogicalResult ArgMinOp::inferReturnTypes(MLIRContext *context, MaybeLocation loc, Adaptor op,
                                         Types &types) {
  return inferArg<ArgMinOp>(context, loc, op, types);
}

LogicalResult ArgSortOp::inferReturnTypes(MLIRContext *context, MaybeLocation loc, Adaptor op,
                                          Types &types) {
  RuleChecks check(loc, getOperationName());
  RankedTensorType input = check.tensor(op.getInput(), "input");
  if (!input)
    return failure();
  if (!op.getDimAttr())
    return check.error("needs the attribute dim");
  int64_t dim = op.getDim();
  if (failed(check.dim(dim, input, "input")))
    return failure();
  Dims dims = dimsOf(input);
  // While an op is being parsed the attributes of its dictionary are in no property yet.
  IntegerAttr given = op.getCountAttr();
  if (!given && op.getAttributes())
    given = op.getAttributes().getAs<IntegerAttr>("count");
  if (given) {
    int64_t count = given.getInt();
    if (count < 0 || (dims[dim].size >= 0 && count > dims[dim].size))
      return check.error("count is " + Twine(count) + ", but dimension " + Twine(dim) +
                         " of input, " + spell(input) + ", has from 0 to " + Twine(dims[dim].size) +
                         " elements to choose");
    dims[dim] = Dim(count);
  }
  types.push_back(tensorOf(dims, IntegerType::get(context, 64)));
  return success();
}

LogicalResult LayerNormOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor op,
                                            Types &types) {
  RuleChecks check(loc, getOperationName());
  RankedTensorType input = check.tensor(op.getInput(), "input");
  if (!input)
    return failure();
  if (!op.getNormalizedRankAttr())
    return check.error("needs the attribute normalized_rank");
  int64_t rank = op.getNormalizedRank();
  if (rank < 1 || rank > input.getRank())
    return check.error("cannot normalize the last " + Twine(rank) + " dimensions of input, " +
                       spell(input) + "; use 1 to " + Twine(input.getRank()));
  Dims dims = dimsOf(input);
  ArrayRef<Dim> normalized = ArrayRef(dims).take_back(rank),
                leading = ArrayRef(dims).drop_back(rank);
  for (auto [value, name] :
       {std::pair(op.getWeight(), "weight"), std::pair(op.getBias(), "bias")}) {
    if (!value)
      continue;
    RankedTensorType type = check.tensor(value, name);
    if (!type || failed(check.sameElement(input, "input", type, name)))
      return failure();
    if (ArrayRef<Dim>(dimsOf(type)) != normalized)
      return check.error("input is " + spell(input) + ", so " + name + " must have the shape " +
                         spell(normalized) + " of its last " + Twine(rank) +
                         " dimensions, but is " + spell(type));
  }
  types.push_back(input);
  types.append(2, tensorOf(leading, wideElement(input.getElementType())));
  return success();
}

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor op,
                                            Types &types) {
  RuleChecks check(loc, getOperationName());
  RankedTensorType query = check.tensor(op.getQuery(), "query"),
                   key = check.tensor(op.getKey(), "key"),
                   value = check.tensor(op.getValue(), "value");
  if (!query || !key || !value || failed(check.sameElement(query, "query", key, "key")) ||
      failed(check.sameElement(query, "query", value, "value")))
    return failure();
  std::string all = "query is " + spell(query) + ", key is " + spell(key) + " and value is " +
                    spell(value) + "; ";
  if (query.getRank() < 2 || key.getRank() != query.getRank() || value.getRank() != query.getRank())
    return check.error(all + "they must have one rank of at least 2: [..., length, features]");
  Dims q = dimsOf(query), k = dimsOf(key), v = dimsOf(value);
  ArrayRef<Dim> batch = ArrayRef(q).drop_back(2);
  if (batch != ArrayRef(k).drop_back(2) || batch != ArrayRef(v).drop_back(2))
    return check.error(all + "their leading dimensions must be equal");
  if (q.back() != k.back())
    return check.error(all + "query and key must have equally many features, their last size");
  if (k.end()[-2] != v.end()[-2])
    return check.error(all + "key and value must be equally long, their last size but one");
  Dims scores(batch.begin(), batch.end());
  scores.append({q.end()[-2], k.end()[-2]});
  if (op.getMask()) {
    RankedTensorType mask = check.tensor(op.getMask(), "mask");
    if (!mask)
      return failure();
    if (!mask.getElementType().isInteger(1) && mask.getElementType() != query.getElementType())
      return check.error("mask is " + spell(mask) + " but query is " + spell(query) +
                         "; the mask must be bool, or of query's dtype");
    // Where the number of keys varies, there may be a column for each that there may be.
    Dims columns = dimsOf(mask);
    if (!columns.empty() && columns.back() == Dim(scores.back().size))
      columns.back() = scores.back();
    if (!broadcastsTo(columns, scores))
      return check.error("mask, " + spell(mask) + ", does not broadcast to " + spell(scores) +
                         ", the shape of query key^T");
  }
  Dims result(q.begin(), q.end());
  result.back() = v.back();
  types.push_back(tensorOf(result, query.getElementType()));
  types.push_back(tensorOf(ArrayRef(q).drop_back(), wideElement(query.getElementType())));
  return success();
}

LogicalResult AttentionGradientOp::inferReturnTypes(MLIRContext *context, MaybeLocation loc,
                                                    Adaptor op, Types &types) {
  RuleChecks check(loc, getOperationName());
  SmallVector<Value> operands{op.getQuery(), op.getKey(), op.getValue()};
  if (op.getMask())
    operands.push_back(op.getMask());
  SmallVector<Type, 2> forward;
  if (failed(AttentionOp::inferReturnTypes(context, loc, AttentionOp::Adaptor(ValueRange(operands)),
                                           forward)))
    return failure();
  auto same = [&](Value given, StringRef name, Type expected, StringRef of) {
    if (!given || given.getType() == expected)
      return success();
    return check.error(name + " is " + spell(given.getType()) + " but " + of + " is " +
                       spell(expected) + "; they must have one type");
  };
  if (failed(same(op.getResult(), "result", forward[0], "attention's result")) ||
      failed(same(op.getGradient(), "gradient", forward[0], "attention's result")) ||
      failed(same(op.getLogSumExp(), "log_sum_exp", forward[1], "attention's log_sum_exp")) ||
      failed(same(op.getSumGradient(), "sum_gradient", forward[1], "attention's log_sum_exp")))
    return failure();
  for (Value operand : {op.getQuery(), op.getKey(), op.getValue()})
    types.push_back(operand.getType());
  return success();
}

LogicalResult CrossEntropyOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor op,
                                               Types &types) {
  RuleChecks check(loc, getOperationName());
  RankedTensorType logits = check.tensor(op.getLogits(), "logits"),
                   targets = check.tensor(op.getTargets(), "targets");
  if (!logits || !targets)
    return failure();
  std::string both = "logits is " + spell(logits) + " and targets is " + spell(targets) + "; ";
  if (!targets.getElementType().isInteger(32) && !targets.getElementType().isInteger(64))
    return check.error(both + "targets must be int32 or int64, the numbers of classes");
  if (logits.getRank() < 1 ||
      ArrayRef(dimsOf(logits)).drop_back() != ArrayRef<Dim>(dimsOf(targets)))
    return check.error(
        both + "targets must have the shape of logits without its last dimension, the classes");
  types.push_back(targets.clone(logits.getElementType()));
  types.push_back(targets.clone(wideElement(logits.getElementType())));
  return success();
}

LogicalResult DropoutOp::inferReturnTypes(MLIRContext *context, MaybeLocation loc, Adaptor op,
                                          Types &types) {
  RuleChecks check(loc, getOperationName());
  RankedTensorType input = check.tensor(op.getInput(), "input");
  if (!input)
    return failure();
  // While an op is being parsed its rate is still in the dictionary. One without a rate is the
  // verifier's to report.
  FloatAttr rate = op.getRateAttr();
  if (!rate && op.getAttributes())
    rate = op.getAttributes().getAs<FloatAttr>("rate");
  if (rate && !(rate.getValueAsDouble() >= 0 && rate.getValueAsDouble() <= 1))
    return check.error("rate is " + std::to_string(rate.getValueAsDouble()) +
                       "; it must lie in [0, 1]");
  types.push_back(input);
  types.push_back(input.clone(IntegerType::get(context, 1)));
  return success();
}

} // namespace weft::ir
