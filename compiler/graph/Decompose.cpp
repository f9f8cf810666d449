#include "compiler/graph/DecomposeOp.h"
#include "compiler/graph/Passes.h"
#include "compiler/graph/Slice.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "dialects/weft/ir/Extensions.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Verifier.h"
#include "runtime/core/thrown.h"

namespace weft::compiler {

using namespace mlir;

#define GEN_PASS_DEF_DECOMPOSEPASS
#include "compiler/graph/Passes.h.inc"

using Values = FailureOr<SmallVector<Value>>;

// Whether codegen knows the op only through its decomposition.
static bool needsDecomposition(ir::WeftOp op) {
  return !op->hasAttr(kWholeAttr) && !op.missingRule(ir::RuleKind::Lowering).empty() &&
         op.missingRule(ir::RuleKind::Decomposition).empty();
}

// How many decompositions in a row led to the op.
static int64_t madeBy(Operation *op) {
  auto count = op->getAttrOfType<IntegerAttr>(kMadeByAttr);
  return count ? count.getInt() : 0;
}

// "(the op is registered by 'mine' 1.0)", or nothing.
static std::string registeredBy(Operation *op) {
  std::string brought = ir::registrationOf(op->getName().getDialectNamespace().str());
  return brought.empty() ? "" : " (the op is registered by " + brought + ")";
}

// An op of a user's: what its rule builds is verified at once, so that the error names the op whose
// rule it was, beside the op that is invalid. said: what is said meanwhile; wrong: what the rule is
// at fault in.
static Values decomposeForeign(ir::WeftOp op, OpBuilder &builder, std::string &said,
                               std::string &wrong) {
  ir::DiagnosticCollector collector(op->getContext());
  Operation *before = op->getPrevNode();
  Values values = failure();
  try {
    values = op.decompose(builder);
  } catch (...) {
    wrong = runtime::thrown_text();
    return values;
  }
  Operation *built = before ? before->getNextNode() : &op->getBlock()->front();
  Attribute count = builder.getI64IntegerAttr(madeBy(op) + 1);
  for (; collector.text().empty() && built != op; built = built->getNextNode()) {
    (void)mlir::verify(built);
    auto made = dyn_cast<ir::WeftOp>(built);
    if (!made) {
      wrong = ("makes " + built->getName().getStringRef() +
               ", which is no weft op; make it of Vals (Rules.h), or write a lowering instead")
                  .str();
      return values;
    }
    if (!ir::isOwn(made) && needsDecomposition(made))
      made->setAttr(kMadeByAttr, count);
  }
  said = collector.text();
  if (succeeded(values) && !said.empty())
    wrong = "makes an op that is invalid";
  return values;
}

llvm::LogicalResult decomposeOp(ir::WeftOp op) {
  if (madeBy(op) >= kMostDecompositionsInARow)
    return op->emitOpError("is at fault in its rule: its decomposition makes it again, or an op "
                           "that does; given up after ")
           << kMostDecompositionsInARow << " in a row" << registeredBy(op);
  OpBuilder builder(op);
  std::string said, wrong;
  Values values =
      ir::isOwn(op) ? op.decompose(builder) : decomposeForeign(op, builder, said, wrong);
  if (!said.empty())
    said.insert(0, ": ");
  if (!wrong.empty())
    return op->emitOpError("is at fault in its rule: its decomposition ")
           << wrong << registeredBy(op) << said;
  if (failed(values))
    return op->emitOpError("has no decomposition for these operands, and no provider claimed it")
           << said;
  if (values->size() != op->getNumResults())
    return op->emitOpError("is at fault in its rule: its decomposition gives ")
           << values->size() << " values for " << op->getNumResults() << " results";
  for (auto [result, value] : llvm::zip_equal(op->getResults(), *values)) {
    if (!value)
      continue;
    if (value.getDefiningOp() == op)
      return op->emitOpError("is at fault in its rule: its decomposition gives its own result");
    if (!ir::isOwn(op) && value.getType() != result.getType())
      return op->emitOpError("is at fault in its rule: its decomposition gives ")
             << value.getType() << " for a result of " << result.getType();
    result.replaceAllUsesWith(value);
  }
  if (!op->use_empty())
    return op->emitOpError("is at fault in its rule: its decomposition gives no value for a result "
                           "that is used");
  op->erase();
  return llvm::success();
}

namespace {

class DecomposePass : public impl::DecomposePassBase<DecomposePass> {
public:
  using DecomposePassBase::DecomposePassBase;

  void runOnOperation() override {
    func::FuncOp main = sliceMain(getOperation());
    if (!main)
      return signalPassFailure();
    Block &block = main.getBody().front();
    for (auto it = block.begin(); it != block.end();) {
      Operation *op = &*it;
      auto weftOp = dyn_cast<ir::WeftOp>(op);
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
