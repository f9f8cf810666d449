// A plugin that registers a pass and then fails, in the way that a test sets.
#include <stdexcept>

#include "compiler/pipeline/PassHooks.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "runtime/abi/weft_custom.h"

extern "C" const char *test_failure;
const char *test_failure = "";

namespace {

class NoPass : public mlir::PassWrapper<NoPass, mlir::OperationPass<mlir::ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NoPass)
  void runOnOperation() override {}
};

void registerPasses(weft::compiler::PassRegistrar &registrar) {
  auto add = [&](const char *name) {
    registrar.registerPass(
        weft::compiler::Phase::Graph, weft::compiler::Position::After,
        [] { return std::make_unique<NoPass>(); }, name, "1.0");
  };
  add("of-a-plugin-that-fails");
  if (test_failure == std::string("throws"))
    throw std::runtime_error("out of luck");
  if (test_failure == std::string("registers what cannot be"))
    add("");
}

} // namespace

extern "C" weft::compiler::PassPluginInfo weft_pass_plugin() {
  return {weft::compiler::kPassPluginApiVersion, "test", "1.0", registerPasses};
}

extern "C" const char *weft_kernel_plugin(weft_register_kernel_function) {
  return test_failure == std::string("has no kernels") ? "it has no kernels" : nullptr;
}
