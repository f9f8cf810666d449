// gelu(x) as x * sigmoid(1.702 x), for all that calls it: WEFT_PLUGINS=./steep.so program. Programs
// call weft::replace_op themselves in the same way.
#include "compiler/plugin/Plugin.h"
#include "weft/weft.h"

namespace {

void registerAll(weft::compiler::PluginRegistrar &) {
  weft::replace_op("weft.gelu", [](const weft::OpCall &call) -> std::vector<weft::Tensor> {
    const weft::Tensor &x = call.operands[0];
    return {x * weft::sigmoid(1.702 * x)};
  });
}

} // namespace

extern "C" weft::compiler::PluginInfo weft_plugin() {
  return {weft::compiler::kPluginApiVersion, "mine-steep-gelu", "1.0", registerAll};
}
