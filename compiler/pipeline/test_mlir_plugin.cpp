// A plugin as MLIR's own tools load them: it knows nothing of Weft, and registers a pass by name.
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Config/llvm-config.h"

namespace {

class MarkPass : public mlir::PassWrapper<MarkPass, mlir::OperationPass<mlir::ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MarkPass)
  llvm::StringRef getArgument() const override {
    return "test-mark-module";
  }
  void runOnOperation() override {
    getOperation()->setAttr("test.marked", mlir::UnitAttr::get(&getContext()));
  }
};

} // namespace

extern "C" mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "mark", LLVM_VERSION_STRING,
          [] { mlir::PassRegistration<MarkPass>(); }};
}
