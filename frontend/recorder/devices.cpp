#include "frontend/recorder/devices.h"

#include <utility>

#include "compiler/backend/Backend.h"
#include "frontend/compile/environment.h"
#include "frontend/recorder/state.h"
#include "runtime/executor/device.h"
#include "weft/device.h"

namespace weft {
namespace recorder {

constinit thread_local CallDevice call_device;
constinit thread_local int16_t thread_device = -1;

uint8_t default_device() {
  return thread_device < 0 ? recorder().default_device.load(std::memory_order_relaxed)
                           : static_cast<uint8_t>(thread_device);
}

std::string device_text(uint8_t device) {
  return runtime::device_name(device);
}

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

bool host_reads(uint8_t device) {
  return device == 0 || runtime::device(device).is_host_memory();
}

} // namespace recorder

Device current_device() {
  recorder::Session session("current_device", Location::current());
  return device_at(recorder::default_device());
}

DeviceScope::DeviceScope(Device device)
    : before_(std::exchange(recorder::thread_device, static_cast<int16_t>(device.index()))) {}
DeviceScope::~DeviceScope() {
  recorder::thread_device = static_cast<int16_t>(before_);
}

} // namespace weft
