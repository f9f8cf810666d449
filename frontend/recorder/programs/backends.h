// Which backend compiles for a device.
#pragma once

#include <string>

#include "frontend/recorder/record/recorder.h"

namespace weft::recorder {

// The name of the backend that compiles for the device: Config::backend for those on the host's
// processors, for others the one that says that it compiles for their kind.
std::string backend_of(const Config &config, uint8_t device);
// Whether what the backend makes reads and writes the device's memory; throws kDevice where not.
void check_backend(const std::string &backend, uint8_t device);
// The options with that backend, which is checked.
Config config_for(const Config &config, uint8_t device);

} // namespace weft::recorder
