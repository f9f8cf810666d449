#include <utility>

#include "frontend/recorder/record/state.h"
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
