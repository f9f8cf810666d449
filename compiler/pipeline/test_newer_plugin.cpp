// A pass plugin that was built against a newer minor version of PassHooks.h.
#include "compiler/pipeline/PassHooks.h"

extern "C" weft::compiler::PassPluginInfo weft_pass_plugin() {
  return {weft::compiler::kPassPluginApiVersion + WEFT_VERSION(0, 1), "newer", "1.0",
          [](weft::compiler::PassRegistrar &) {}};
}
