// The pass as a plugin: WEFT_PLUGINS=./abs_pass.so program, or weft-opt --weft-plugin=./abs_pass.so
// --weft-phase=graph model.mlir
#include "compiler/plugin/Plugin.h"
#include "abs_pass.h"

namespace {

void registerAll(weft::compiler::PluginRegistrar &registrar) {
  using namespace weft::compiler;
  // Name and version are part of the keys of caches: a new version compiles programs anew.
  registrar.registerPass(
      Phase::Graph, Position::After, [] { return std::make_unique<mine::AbsPass>(); }, "mine-abs",
      "1.0");
}

} // namespace

extern "C" weft::compiler::PluginInfo weft_plugin() {
  return {weft::compiler::kPluginApiVersion, "mine-abs", "1.0", registerAll};
}
