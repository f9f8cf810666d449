// The dialect, and the plugin that registers it.
#include "compiler/plugin/Plugin.h"
#include "mine.h"

#include "dialects/weft/ir/StandInTypes.h" // before the definitions of ops

#include "mine_dialect.cpp.inc"
#define GET_OP_CLASSES
#include "mine_ops.cpp.inc"

void mine::MineDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "mine_ops.cpp.inc"
      >();
}

static void registerAll(weft::compiler::PluginRegistrar &registrar) {
  registrar.registerDialects(
      "mine", "1.0", [](mlir::DialectRegistry &registry) { registry.insert<mine::MineDialect>(); });
}
extern "C" weft::compiler::PluginInfo weft_plugin() {
  return {weft::compiler::kPluginApiVersion, "mine", "1.0", registerAll};
}
