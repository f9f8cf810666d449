#include "backends/cuda/compile/NarrowNumbers.h"

#include "llvm/ADT/STLExtras.h"

namespace weft::backends::cuda {

using namespace mlir;

bool isWidening(ir::CastOp cast) {
  Type from = typeOf(cast.getInput()).getElementType();
  return (from.isBF16() || from.isF16()) && typeOf(cast).getElementType().isF32();
}

ir::CastOp roundingOf(Value result, Type narrow) {
  auto cast = result.hasOneUse() ? dyn_cast<ir::CastOp>(*result.user_begin()) : ir::CastOp();
  return cast && typeOf(cast).getElementType() == narrow ? cast : ir::CastOp();
}

void takeIn(compiler::Claim &claim, ArrayRef<Operation *> ops) {
  for (Operation *op : ops)
    if (!llvm::is_contained(claim.ops, op))
      claim.ops.push_back(op);
  llvm::sort(claim.ops, [](Operation *x, Operation *y) { return x->isBeforeInBlock(y); });
}

} // namespace weft::backends::cuda
