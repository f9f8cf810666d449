#include "compiler/claim/ClaimSteps.h"

#include "dialects/weft/ir/Broadcasts.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/SmallestSize.h"
#include "llvm/ADT/STLExtras.h"

namespace weft::compiler {

using namespace mlir;

bool hasVaryingSizes(Operation *op) {
  return llvm::any_of(op->getOperandTypes(), ir::hasNamedDims) ||
         llvm::any_of(op->getResultTypes(), ir::hasNamedDims);
}

int64_t smallestProduct(ir::MatmulOp matmul) {
  int64_t product = 1;
  SmallVector<ir::Dim> dims(ir::dimsOf(matmul));
  ir::Dims lhs = ir::dimsOf(matmul.getLhs());
  dims.push_back(lhs[lhs.size() - (matmul.getTransposeLhs() ? 2 : 1)]);
  for (const ir::Dim &dim : dims) {
    int64_t size = ir::smallestSize(matmul, dim);
    if (size < 0 || __builtin_mul_overflow(product, size, &product))
      return -1;
  }
  return product;
}

Operation *onlyUser(const Claim &claim) {
  Value value = claim.ops.back()->getResult(0);
  return value.hasOneUse() ? *value.user_begin() : nullptr;
}

std::pair<ir::AddOp, Value> addedTo(const Claim &claim) {
  auto add = dyn_cast_or_null<ir::AddOp>(onlyUser(claim));
  if (!add)
    return {};
  return {add, add.getLhs() == claim.ops.back()->getResult(0) ? add.getRhs() : add.getLhs()};
}

void takeIn(Claim &claim, ArrayRef<Operation *> ops) {
  for (Operation *op : ops)
    if (!llvm::is_contained(claim.ops, op))
      claim.ops.push_back(op);
  llvm::sort(claim.ops, [](Operation *x, Operation *y) { return x->isBeforeInBlock(y); });
}

bool takeBias(Claim &claim, int64_t dim, int64_t rank) {
  auto [add, other] = addedTo(claim);
  auto broadcast = add ? other.getDefiningOp<ir::BroadcastOp>() : ir::BroadcastOp();
  if (!broadcast || broadcast.getInput().getType().getRank() > rank ||
      !ir::vectorAlong(broadcast, dim))
    return false;
  takeIn(claim, {broadcast, add});
  claim.inputs.push_back(broadcast.getInput());
  return true;
}

ir::CastOp wideningOf(Value value, Type narrow) {
  auto cast = value.getDefiningOp<ir::CastOp>();
  if (!cast || !typeOf(cast).getElementType().isF32())
    return {};
  Type from = typeOf(cast.getInput()).getElementType();
  return (narrow ? from == narrow : from.isBF16() || from.isF16()) ? cast : ir::CastOp();
}

ir::CastOp roundingOf(const Claim &claim, Type narrow) {
  auto cast = dyn_cast_or_null<ir::CastOp>(onlyUser(claim));
  return cast && typeOf(cast).getElementType() == narrow ? cast : ir::CastOp();
}

bool takeRounding(Claim &claim, Type narrow) {
  ir::CastOp rounding = roundingOf(claim, narrow);
  if (rounding)
    claim.ops.push_back(rounding);
  return rounding != nullptr;
}

} // namespace weft::compiler
