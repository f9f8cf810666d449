#include "frontend/recorder/programs/backends.h"

#include "compiler/backend/Backend.h"
#include "frontend/compile/environment.h"
#include "weft/device.h"

namespace weft::recorder {

std::string backend_of(const Config &config, uint8_t device) {
  if (device == 0)
    return config.backend;
  std::string kind = kind_of(device_text(device));
  return kind == "cpu" ? config.backend : kind;
}

void check_backend(const std::string &backend, uint8_t device) {
  auto found = compiler::findBackend(backend);
  std::string name = device_text(device);
  if (!found.ok() || (*found)->device() == kind_of(name) || backend == kind_of(name))
    return;
  std::string other = (*found)->device().str();
  fail(ErrorKind::kDevice,
       "the backend '" + backend + "' computes on devices of kind " + other + ", not on " + name +
           "; move the tensors instead (WEFT_DEVICE=" + other + ", or to(\"" + other + "\"))");
}

Config config_for(const Config &config, uint8_t device) {
  Config result = config;
  result.backend = backend_of(config, device);
  result.math = math_of(config);
  check_backend(result.backend, device);
  return result;
}

} // namespace weft::recorder
