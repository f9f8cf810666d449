#include "dialects/weft/ir/Accumulation.h"

#include "dialects/weft/ir/Weft.h"

namespace weft::ir {

using namespace mlir;

Type accumulationType(Operation *op) {
  if (!isa<ReduceSumOp, ReduceProdOp, ReduceMaxOp, ReduceMinOp, CumsumOp, CumprodOp, RecurrenceOp,
           CumArgMaxOp, CumArgMinOp, MatmulOp, IndexAddOp, ScatterAddOp, ScatterReduceOp, Conv2dOp,
           Conv2dInputGradientOp, Conv2dWeightGradientOp, CholeskyOp, SolveTriangularOp, LuOp>(op))
    return nullptr;
  Type element = typeOf(op->getOperand(0)).getElementType();
  if (element.isBF16() || element.isF16())
    return Float32Type::get(op->getContext());
  if (element.isUnsignedInteger())
    return IntegerType::get(op->getContext(), 32);
  return nullptr;
}

} // namespace weft::ir
