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

// That of this thread's innermost MathScope.
extern constinit thread_local std::optional<Math> thread_math;
// How what this thread asks for computes.
Math math_of(const Config &config);

} // namespace weft::recorder
