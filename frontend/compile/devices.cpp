// Devices by their names.
#include "weft/device.h"

#include "frontend/compile/environment.h"
#include "runtime/executor/device.h"
#include "weft/config.h"
#include "weft/error.h"

namespace weft {

Device::Device(std::string_view name, Location location) {
  recorder::load_plugins();
  absl::StatusOr<int> found = runtime::find_device(name);
  if (!found.ok())
    fail_at(location, ErrorKind::kDevice, std::string(found.status().message()));
  index_ = static_cast<uint8_t>(*found);
}

std::string Device::name() const {
  return runtime::device_name(index_);
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
    fail_at(location, ErrorKind::kDevice,
            "there is no device of index " + std::to_string(index) + "; there are " +
                std::to_string(count));
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

MemoryStatistics memory_statistics(Device device) {
  runtime::AllocatorStats stats = runtime::device(device.index()).memory()->allocator().stats();
  return {stats.live_bytes,  stats.peak_bytes, stats.reserved_bytes, stats.pinned_bytes,
          stats.allocations, stats.frees,      stats.failures};
}

void set_allocator(std::shared_ptr<runtime::Allocator> allocator, Device device) {
  runtime::device(device.index()).set_allocator(std::move(allocator));
}

std::shared_ptr<runtime::Allocator> default_allocator(Device device) {
  return runtime::device(device.index()).default_allocator();
}

} // namespace weft
