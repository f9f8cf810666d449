// What a process starts with: options from environment variables, and the plugins that they name.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "weft/config.h"

namespace weft::recorder {

constexpr int64_t kLeastBudget = 1; // a cut after each op

// A variable that does not parse is reported on stderr by name and keeps its default. Plugins are
// loaded before: they may bring the device.
Config config_from_environment();
// Those of WEFT_PLUGINS, at the first call: what they bring may be asked for by name. Errors go to
// stderr.
void load_plugins();

// Where values wait that memory has no room for, from now on, wherever the process goes; an error
// where the folder takes no files.
absl::Status use_memory_folder(const std::string &folder);

// "gpu" of "gpu:1".
inline std::string kind_of(const std::string &device) {
  return device.substr(0, device.find(':'));
}

// That of this thread's innermost MathScope.
extern constinit thread_local std::optional<Math> thread_math;
// How what this thread asks for computes.
Math math_of(const Config &config);

} // namespace weft::recorder
