// weft-import: what a slice has to be, checked once for all later passes: one function @main of
// weft ops on tensors of static shapes, in an order in which values come before their uses.
#include "compiler/graph/Passes.h"
#include "compiler/graph/Slice.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/TypeAdvice.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/Analysis/TopologicalSortUtils.h"

namespace weft::compiler {

using namespace mlir;

#define GEN_PASS_DEF_IMPORTPASS
#include "compiler/graph/Passes.h.inc"

func::FuncOp sliceMain(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main) {
    mlir::emitError(module.getLoc())
        << "a slice needs a function @main; rename the function to compile";
    return nullptr;
  }
  if (!main.getBody().hasOneBlock()) {
    main.emitError() << "@main needs exactly one block, but has "
                     << main.getBody().getBlocks().size();
    return nullptr;
  }
  return main;
}

namespace {

bool isStaticTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape();
}

class ImportPass : public impl::ImportPassBase<ImportPass> {
public:
  using ImportPassBase::ImportPassBase;

  void runOnOperation() override {
    func::FuncOp main = sliceMain(getOperation());
    if (!main)
      return signalPassFailure();
    for (auto [i, argument] : llvm::enumerate(main.getArguments()))
      if (!isStaticTensor(argument.getType())) {
        main.emitError() << "argument " << i << " of @main has the type " << argument.getType()
                         << "; slices take tensors with static shapes";
        return signalPassFailure();
      } else if (std::string advice = ir::elementAdvice(argument.getType()); !advice.empty()) {
        main.emitError() << "argument " << i << " of @main has the type " << argument.getType()
                         << "; " << advice;
        return signalPassFailure();
      }
    Block &block = main.getBody().front();
    for (Operation &op : block)
      if (failed(check(op)))
        return signalPassFailure();
    if (!isSorted(block) && !sortTopologically(&block)) {
      main.emitError() << "@main has ops that need each other's results";
      return signalPassFailure();
    }
  }

private:
  LogicalResult check(Operation &op) {
    if (isa<func::ReturnOp>(op))
      return success();
    if (isa<ir::LeafOp>(op))
      return op.emitError()
             << "a leaf belongs to the recorder; in a slice it is an argument of @main";
    if (!isa<ir::WeftOp>(op))
      return op.emitError() << "a slice holds weft ops only, and '" << op.getName() << "' is none";
    for (Type type : op.getResultTypes())
      if (!isStaticTensor(type))
        return op.emitError() << "gives " << type << "; slices hold tensors with static shapes";
      else if (std::string advice = ir::elementAdvice(type); !advice.empty())
        return op.emitOpError("gives ") << type << "; " << advice;
    return ir::verifyStatement(&op);
  }

  // Linear, unlike a dominance query a use: the block numbers its ops once.
  static bool isSorted(Block &block) {
    for (Operation &op : block)
      for (Value operand : op.getOperands())
        if (Operation *def = operand.getDefiningOp(); def && !def->isBeforeInBlock(&op))
          return false;
    return true;
  }
};

} // namespace
bool isStable(func::FuncOp main, unsigned argument) {
  return (main.getArgAttr(argument, ir::kStableAttr) ||
          main.getArgAttr(argument, ir::kParameterAttr)) &&
         !main.getArgAttr(argument, ir::kDonatableAttr);
}

} // namespace weft::compiler
