#include "compiler/graph/DecomposeOp.h"
#include "compiler/graph/Passes.h"
#include "compiler/graph/Slice.h"
#include "dialects/weft/ir/Weft.h"

namespace weft::compiler {

#define GEN_PASS_DEF_DECOMPOSEPASS
#include "compiler/graph/Passes.h.inc"

llvm::LogicalResult decomposeOp(ir::WeftOp op) {
  mlir::OpBuilder builder(op);
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> values = op.decompose(builder);
  if (failed(values))
    return op->emitError() << "has no decomposition for these operands, and no provider claimed it";
  if (values->size() != op->getNumResults())
    return op->emitOpError("is at fault in its rule: its decomposition gives ")
           << values->size() << " values for " << op->getNumResults() << " results";
  for (auto [result, value] : llvm::zip_equal(op->getResults(), *values)) {
    if (!value)
      continue;
    if (!ir::isOwn(op) && value.getType() != result.getType())
      return op->emitOpError("is at fault in its rule: its decomposition gives ")
             << value.getType() << " for a result of " << result.getType();
    result.replaceAllUsesWith(value);
  }
  if (!op->use_empty())
    return op->emitError() << "its decomposition gives no value for a result that is used";
  op->erase();
  return llvm::success();
}

namespace {

// Whether codegen knows the op only through its decomposition.
bool needsDecomposition(ir::WeftOp op) {
  return !op->hasAttr(kWholeAttr) && !op.missingRule(ir::RuleKind::Lowering).empty() &&
         op.missingRule(ir::RuleKind::Decomposition).empty();
}

class DecomposePass : public impl::DecomposePassBase<DecomposePass> {
public:
  using DecomposePassBase::DecomposePassBase;

  void runOnOperation() override {
    mlir::func::FuncOp main = sliceMain(getOperation());
    if (!main)
      return signalPassFailure();
    mlir::Block &block = main.getBody().front();
    for (auto it = block.begin(); it != block.end();) {
      mlir::Operation *op = &*it;
      auto weftOp = mlir::dyn_cast<ir::WeftOp>(op);
      if (!weftOp || !needsDecomposition(weftOp)) {
        ++it;
        continue;
      }
      bool first = it == block.begin();
      auto previous = first ? block.begin() : std::prev(it);
      if (failed(decomposeOp(weftOp)))
        return signalPassFailure();
      ++numDecomposed;
      // What the decomposition made stands from here on.
      it = first ? block.begin() : std::next(previous);
    }
  }
};

} // namespace
} // namespace weft::compiler
