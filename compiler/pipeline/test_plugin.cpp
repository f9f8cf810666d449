// A pass plugin as a user writes one: sees MLIR and PassHooks.h, needs no symbol of the program
// that loads it.
#include "compiler/pipeline/PassHooks.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace {

// Writes the number of weft ops into the module's attribute test.weft_ops.
class CountOpsPass : public mlir::PassWrapper<CountOpsPass, mlir::OperationPass<mlir::ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CountOpsPass)
  void runOnOperation() override {
    int64_t count = 0;
    getOperation().walk(
        [&](mlir::Operation *op) { count += op->getName().getDialectNamespace() == "weft"; });
    getOperation()->setAttr(
        "test.weft_ops", mlir::IntegerAttr::get(mlir::IntegerType::get(&getContext(), 64), count));
  }
};

void registerPasses(weft::compiler::PassRegistrar &registrar) {
  registrar.registerPass(
      weft::compiler::Phase::Graph, weft::compiler::Position::After,
      [] { return std::make_unique<CountOpsPass>(); }, "count-weft-ops", "1.0");
}

} // namespace

extern "C" weft::compiler::PassPluginInfo weft_pass_plugin() {
  return {weft::compiler::kPassPluginApiVersion, "test", "1.0", registerPasses};
}
