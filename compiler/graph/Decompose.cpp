#include "compiler/graph/DecomposeOp.h"
#include "compiler/graph/Passes.h"
#include "compiler/graph/Slice.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "dialects/weft/ir/Extensions.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Verifier.h"

namespace weft::compiler {

#define GEN_PASS_DEF_DECOMPOSEPASS
#include "compiler/graph/Passes.h.inc"

using Values = mlir::FailureOr<llvm::SmallVector<mlir::Value>>;

// An op of a user's: what its rule builds is verified at once, so that the error names the op whose
// rule it was, beside the op that is invalid.
static Values decomposeForeign(ir::WeftOp op, mlir::OpBuilder &builder, std::string &said) {
  ir::DiagnosticCollector collector(op->getContext());
  mlir::Operation *before = op->getPrevNode();
  Values values = op.decompose(builder);
  mlir::Operation *built = before ? before->getNextNode() : &op->getBlock()->front();
  for (; collector.text().empty() && built != op; built = built->getNextNode())
    (void)mlir::verify(built);
  said = collector.text();
  return values;
}

llvm::LogicalResult decomposeOp(ir::WeftOp op) {
  mlir::OpBuilder builder(op);
  std::string said;
  Values values = ir::isOwn(op) ? op.decompose(builder) : decomposeForeign(op, builder, said);
  if (failed(values))
    return op->emitError() << "has no decomposition for these operands, and no provider claimed it"
                           << (said.empty() ? "" : ": ") << said;
  if (!said.empty()) {
    std::string brought = ir::registrationOf(op->getName().getDialectNamespace().str());
    return op->emitOpError("is at fault in its rule: its decomposition makes an op that is invalid")
           << (brought.empty() ? "" : " (the op is registered by " + brought + ")") << ": " << said;
  }
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
