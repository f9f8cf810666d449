#include "frontend/recorder/devices.h"

#include <utility>

#include "compiler/backend/Backend.h"
#include "frontend/recorder/config_env.h"
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

namespace {
std::string kind_of(const std::string &name) {
  return name.substr(0, name.find(':'));
}
} // namespace

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

Device::Device(std::string_view name, Location location) {
  recorder::load_plugins();
  absl::StatusOr<int> found = runtime::find_device(name);
  if (!found.ok())
    throw Error(ErrorKind::kDevice, std::string(found.status().message()),
                CallerScope::resolve(location));
  index_ = static_cast<uint8_t>(*found);
}

std::string Device::name() const {
  return recorder::device_text(index_);
}
std::string Device::kind() const {
  return recorder::kind_of(name());
}
int Device::number() const {
  std::string text = name();
  return std::stoi(text.substr(text.find(':') + 1));
}

Device device_at(int index, Location location) {
  recorder::load_plugins();
  int count = runtime::device_count();
  if (index < 0 || index >= count)
    throw Error(ErrorKind::kDevice,
                "there is no device of index " + std::to_string(index) + "; there are " +
                    std::to_string(count),
                CallerScope::resolve(location));
  Device device;
  device.index_ = static_cast<uint8_t>(index);
  return device;
}

std::vector<Device> devices() {
  recorder::load_plugins();
  std::vector<Device> all;
  for (int i = 0, count = runtime::device_count(); i < count; ++i)
    all.push_back(device_at(i));
  return all;
}

Device current_device() {
  recorder::Session session("current_device", Location::current());
  return device_at(recorder::default_device());
}

DeviceScope::DeviceScope(Device device)
    : before_(std::exchange(recorder::thread_device, static_cast<int16_t>(device.index()))) {}
DeviceScope::~DeviceScope() {
  recorder::thread_device = static_cast<int16_t>(before_);
}

MemoryStatistics memory_statistics(Device device) {
  runtime::AllocatorStats stats = runtime::device(device.index()).memory()->allocator().stats();
  return {stats.live_bytes,  stats.peak_bytes, stats.reserved_bytes,
          stats.allocations, stats.frees,      stats.failures};
}

} // namespace weft
