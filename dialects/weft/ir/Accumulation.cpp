#include "dialects/weft/ir/Accumulation.h"

#include "dialects/weft/ir/Weft.h"

namespace weft::ir {

mlir::Type accumulationType(mlir::Operation *op) {
  if (!mlir::isa<ReduceSumOp, ReduceProdOp, ReduceMaxOp, ReduceMinOp, CumsumOp, CumprodOp,
                 RecurrenceOp, CumArgMaxOp, CumArgMinOp, MatmulOp, IndexAddOp, ScatterAddOp,
                 ScatterReduceOp, Conv2dOp, Conv2dInputGradientOp, Conv2dWeightGradientOp>(op))
    return nullptr;
  mlir::Type element =
      mlir::cast<mlir::RankedTensorType>(op->getOperand(0).getType()).getElementType();
  if (element.isBF16() || element.isF16())
    return mlir::Float32Type::get(op->getContext());
  if (element.isUnsignedInteger())
    return mlir::IntegerType::get(op->getContext(), 32);
  return nullptr;
}

} // namespace weft::ir
