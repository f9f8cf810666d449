// The dialect, and the plugin that registers it. mine_*.inc are made from mine.td by mlir-tblgen
// (test.sh).
#include "compiler/plugin/Plugin.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/rules/Folding.h"

#include "mine_dialect.h.inc"
#define GET_OP_CLASSES
#include "mine_ops.h.inc"

#include "mine_dialect.cpp.inc"
#define GET_OP_CLASSES
#include "mine_ops.cpp.inc"

void mine::MineDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "mine_ops.cpp.inc"
      >();
}

namespace {
void registerAll(weft::compiler::PluginRegistrar &registrar) {
  registrar.registerDialects(
      "mine", "1.0", [](mlir::DialectRegistry &registry) { registry.insert<mine::MineDialect>(); });
}
} // namespace

extern "C" weft::compiler::PluginInfo weft_plugin() {
  return {weft::compiler::kPluginApiVersion, "mine", "1.0", registerAll};
}
