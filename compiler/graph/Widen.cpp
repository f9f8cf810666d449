#include "compiler/graph/Passes.h"
#include "compiler/graph/Slice.h"
#include "dialects/weft/ir/Accumulation.h"
#include "dialects/weft/ir/Weft.h"

namespace weft::compiler {

using namespace mlir;

#define GEN_PASS_DEF_WIDENPASS
#include "compiler/graph/Passes.h.inc"

namespace {

Value converted(OpBuilder &builder, Location loc, Value value, Type element) {
  return ir::CastOp::create(
      builder, loc, cast<RankedTensorType>(ir::withElementType(value.getType(), element)), value);
}

class WidenPass : public impl::WidenPassBase<WidenPass> {
public:
  using WidenPassBase::WidenPassBase;

  void runOnOperation() override {
    func::FuncOp main = sliceMain(getOperation());
    if (!main)
      return signalPassFailure();
    for (Operation &op : llvm::make_early_inc_range(main.getBody().front())) {
      Type wide = ir::accumulationType(&op);
      if (!wide)
        continue;
      Type narrow = getElementTypeOrSelf(op.getOperand(0));
      OpBuilder builder(&op);
      Operation *inner = builder.clone(op);
      builder.setInsertionPoint(inner);
      for (OpOperand &operand : inner->getOpOperands())
        if (getElementTypeOrSelf(operand.get()) == narrow)
          operand.set(converted(builder, op.getLoc(), operand.get(), wide));
      builder.setInsertionPointAfter(inner);
      for (auto [result, old] : llvm::zip_equal(inner->getResults(), op.getResults())) {
        Value value = result;
        if (getElementTypeOrSelf(result) == narrow) { // no indices
          result.setType(ir::withElementType(result.getType(), wide));
          value = converted(builder, op.getLoc(), result, narrow);
        }
        old.replaceAllUsesWith(value);
      }
      op.erase();
      ++numWidened;
    }
  }
};

} // namespace
} // namespace weft::compiler
