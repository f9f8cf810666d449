// The options' initial values, from environment variables.
#pragma once

#include "weft/config.h"

namespace weft::recorder {

// A variable that does not parse is reported on stderr by name and keeps its default. Plugins are
// loaded before: they may bring the device.
Config config_from_environment();
// Those of WEFT_PLUGINS, at the first call: what they bring may be asked for by name. Errors go to
// stderr.
void load_plugins();

} // namespace weft::recorder
