#include "compiler/graph/Passes.h"
#include "compiler/graph/Slice.h"
#include "dialects/weft/ir/Weft.h"

namespace weft::compiler {

#define GEN_PASS_DEF_DECOMPOSEPASS
#include "compiler/graph/Passes.h.inc"

namespace {

// Whether codegen knows the op only through its decomposition.
bool needsDecomposition(ir::WeftOp op) {
  return !op.missingRule(ir::RuleKind::Lowering).empty() && op.missingRule(ir::RuleKind::Decomposition).empty();
}

class DecomposePass : public impl::DecomposePassBase<DecomposePass> {
public:
  using DecomposePassBase::DecomposePassBase;

  void runOnOperation() override {
    mlir::func::FuncOp main = sliceMain(getOperation());
    if (!main) return signalPassFailure();
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
      mlir::OpBuilder builder(op);
      mlir::FailureOr<llvm::SmallVector<mlir::Value>> values = weftOp.decompose(builder);
      if (failed(values)) {
        op->emitError() << "has no decomposition for these operands, and no provider claimed it";
        return signalPassFailure();
      }
      for (auto [result, value] : llvm::zip_equal(op->getResults(), *values))
        if (value) result.replaceAllUsesWith(value);
      if (!op->use_empty()) {
        op->emitError() << "its decomposition gives no value for a result that is used";
        return signalPassFailure();
      }
      op->erase();
      ++numDecomposed;
      // What the decomposition made stands from here on.
      it = first ? block.begin() : std::next(previous);
    }
  }
};

} // namespace
} // namespace weft::compiler
