// A rule of what fuses: no kernel of more than two ops, to see where time goes.
// WEFT_PLUGINS=./small.so program
#include "compiler/plugin/Plugin.h"

namespace {

void registerAll(weft::compiler::PluginRegistrar &registrar) {
  registrar.registerFusionRule("mine-small", "1.0", [](llvm::ArrayRef<mlir::Operation *> ops) {
    return std::string(ops.size() > 2 ? "the kernel would have more than 2 ops" : "");
  });
}

} // namespace

extern "C" weft::compiler::PluginInfo weft_plugin() {
  return {weft::compiler::kPluginApiVersion, "mine-small", "1.0", registerAll};
}
