// The rules of collectives: types, derivatives, and the value in a group of one rank.
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/reference/Evaluation.h"
#include "dialects/weft/rules/RuleChecks.h"

namespace weft::ir {

using namespace mlir;

using MaybeLocation = std::optional<Location>;
using Types = SmallVectorImpl<Type>;

//===-- Types ---------------------------------------------------------------------------------===//

// The type with dim 0 divided into `ranks` parts, or `ranks` times as long.
static LogicalResult resize(RuleChecks &check, Value input, int64_t ranks, bool divide,
                            Types &types) {
  RankedTensorType type = check.tensor(input, "input");
  if (!type)
    return failure();
  if (type.getRank() == 0 || !type.hasStaticShape())
    return check.error("the input is " + spell(type) +
                       "; what ranks exchange is cut along dim 0, which must be there, and static");
  SmallVector<int64_t> dims(type.getShape());
  if (divide && dims[0] % ranks != 0)
    return check.error("dim 0 of " + spell(type) + " does not divide into " + Twine(ranks) +
                       " parts, one for each rank");
  dims[0] = divide ? dims[0] / ranks : dims[0] * ranks;
  types.push_back(RankedTensorType::get(dims, type.getElementType()));
  return success();
}

LogicalResult AllGatherOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor op,
                                            Types &types) {
  RuleChecks check(loc, getOperationName());
  return resize(check, op.getInput(), op.getRanks(), /*divide=*/false, types);
}
LogicalResult ReduceScatterOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor op,
                                                Types &types) {
  RuleChecks check(loc, getOperationName());
  return resize(check, op.getInput(), op.getRanks(), /*divide=*/true, types);
}
LogicalResult AllToAllOp::verify() {
  RuleChecks check(*this);
  SmallVector<Type> types;
  return resize(check, getInput(), getRanks(), /*divide=*/true, types);
}

//===-- Derivatives ---------------------------------------------------------------------------===//
// What a rank's input does to all ranks' losses together: the transposed exchange.

// max, min and products: which rank's element counts is not kept.
static LogicalResult refuse(GradContext &ctx, StringRef op, Reduction reduction) {
  return ctx.noRule(
      op, ("only sums and means over ranks have a derivative, not " + stringifyReduction(reduction))
              .str());
}
static bool isLinear(Reduction reduction) {
  return reduction == Reduction::sum || reduction == Reduction::mean;
}

LogicalResult AllReduceOp::differentiate(GradContext &ctx) {
  const Properties &p = ctx.properties<AllReduceOp>();
  Val g = ctx.g();
  if (!isLinear(p.reduction.getValue()))
    return refuse(ctx, getOperationName(), p.reduction.getValue());
  ctx.grad(0, ctx.make<AllReduceOp>(g.type(), p.reduction, g, p.group, p.ranks, p.operand));
  return success();
}
LogicalResult AllGatherOp::differentiate(GradContext &ctx) {
  const Properties &p = ctx.properties<AllGatherOp>();
  auto sum = ReductionAttr::get(ctx.builder().getContext(), Reduction::sum);
  ctx.grad(0, ctx.make<ReduceScatterOp>(ctx.operandType(0), sum, ctx.g().value(), p.group, p.ranks,
                                        StringAttr()));
  return success();
}
LogicalResult ReduceScatterOp::differentiate(GradContext &ctx) {
  const Properties &p = ctx.properties<ReduceScatterOp>();
  if (!isLinear(p.reduction.getValue()))
    return refuse(ctx, getOperationName(), p.reduction.getValue());
  Val whole = ctx.make<AllGatherOp>(ctx.operandType(0), ctx.g().value(), p.group, p.ranks);
  if (p.reduction.getValue() == Reduction::mean)
    whole = whole / static_cast<double>(p.ranks.getInt());
  ctx.grad(0, whole);
  return success();
}
LogicalResult AllToAllOp::differentiate(GradContext &ctx) {
  const Properties &p = ctx.properties<AllToAllOp>();
  Val g = ctx.g();
  ctx.grad(0, ctx.make<AllToAllOp>(g.type(), g, p.group, p.ranks));
  return success();
}
LogicalResult BroadcastFromOp::differentiate(GradContext &ctx) {
  const Properties &p = ctx.properties<BroadcastFromOp>();
  Val g = ctx.g();
  auto kind = ReductionAttr::get(ctx.builder().getContext(), Reduction::sum);
  Val sum = ctx.make<AllReduceOp>(g.type(), kind, g, p.group, p.ranks, p.operand);
  // The other ranks' inputs went nowhere. They choose zeros, so that the sum is in their history: a
  // second derivative is a call of all ranks, too.
  Val zero = g.constant(0);
  ctx.grad(0,
           p.rank.getInt() == p.root.getInt() ? sum : select(compare("ne", zero, zero), sum, zero));
  return success();
}

// What came from a rank has its derivative go back there.
LogicalResult SendReceiveOp::differentiate(GradContext &ctx) {
  const Properties &p = ctx.properties<SendReceiveOp>();
  Val g = ctx.g();
  ctx.grad(0, ctx.make<SendReceiveOp>(g.type(), g, p.from, p.to, p.group, p.ranks));
  return success();
}

//===-- Values --------------------------------------------------------------------------------===//

// One rank exchanges with nobody.
static LogicalResult alone(EvalContext &ctx, int64_t ranks) {
  if (ranks != 1)
    return ctx.error("is an exchange of " + Twine(ranks) +
                     " ranks, which runs between programs and not inside of one");
  ctx.result().bytes = ctx.operand(0).bytes;
  return success();
}
LogicalResult AllReduceOp::evaluate(EvalContext &ctx) {
  return alone(ctx, getRanks());
}
LogicalResult AllGatherOp::evaluate(EvalContext &ctx) {
  return alone(ctx, getRanks());
}
LogicalResult ReduceScatterOp::evaluate(EvalContext &ctx) {
  return alone(ctx, getRanks());
}
LogicalResult AllToAllOp::evaluate(EvalContext &ctx) {
  return alone(ctx, getRanks());
}
LogicalResult BroadcastFromOp::evaluate(EvalContext &ctx) {
  return alone(ctx, getRanks());
}
// Its own input, or nobody is there to receive from: zeros.
LogicalResult SendReceiveOp::evaluate(EvalContext &ctx) {
  if (failed(alone(ctx, getRanks())))
    return failure();
  if (static_cast<int64_t>(getFrom()) < 0)
    std::fill(ctx.result().bytes.begin(), ctx.result().bytes.end(), std::byte(0));
  return success();
}

} // namespace weft::ir
