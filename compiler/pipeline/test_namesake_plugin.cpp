// A plugin whose pass is of a class with a public name. It gives the module the attribute NAMESAKE.
#include "compiler/pipeline/PassHooks.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

struct NamesakePass : mlir::PassWrapper<NamesakePass, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NamesakePass)
  void runOnOperation() override {
    getOperation()->setAttr(NAMESAKE, mlir::UnitAttr::get(&getContext()));
  }
};

static void registerPasses(weft::compiler::PassRegistrar &registrar) {
  registrar.registerPass(
      weft::compiler::Phase::Graph, weft::compiler::Position::After,
      [] { return std::make_unique<NamesakePass>(); }, NAMESAKE, "1.0");
}

extern "C" weft::compiler::PassPluginInfo weft_pass_plugin() {
  return {weft::compiler::kPassPluginApiVersion, NAMESAKE, "1.0", registerPasses};
}
