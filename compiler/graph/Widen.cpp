#include "compiler/graph/Passes.h"
#include "compiler/graph/Slice.h"
#include "dialects/weft/ir/Accumulation.h"
#include "dialects/weft/ir/Weft.h"

namespace weft::compiler {

#define GEN_PASS_DEF_WIDENPASS
#include "compiler/graph/Passes.h.inc"

namespace {

mlir::Value converted(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                      mlir::Type element) {
  return ir::CastOp::create(
      builder, loc,
      mlir::cast<mlir::RankedTensorType>(ir::withElementType(value.getType(), element)), value);
}

mlir::Type elementOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType();
}

class WidenPass : public impl::WidenPassBase<WidenPass> {
public:
  using WidenPassBase::WidenPassBase;

  void runOnOperation() override {
    mlir::func::FuncOp main = sliceMain(getOperation());
    if (!main)
      return signalPassFailure();
    for (mlir::Operation &op : llvm::make_early_inc_range(main.getBody().front())) {
      mlir::Type wide = ir::accumulationType(&op);
      if (!wide)
        continue;
      mlir::Type narrow = elementOf(op.getOperand(0));
      mlir::OpBuilder builder(&op);
      mlir::Operation *inner = builder.clone(op);
      builder.setInsertionPoint(inner);
      for (mlir::OpOperand &operand : inner->getOpOperands())
        if (elementOf(operand.get()) == narrow)
          operand.set(converted(builder, op.getLoc(), operand.get(), wide));
      mlir::Value result = inner->getResult(0);
      if (elementOf(result) == narrow) { // no indices
        result.setType(ir::withElementType(result.getType(), wide));
        builder.setInsertionPointAfter(inner);
        result = converted(builder, op.getLoc(), result, narrow);
      }
      op.getResult(0).replaceAllUsesWith(result);
      op.erase();
      ++numWidened;
    }
  }
};

} // namespace
} // namespace weft::compiler
