// Where tensors lie and where their programs run. docs/devices.md tells more.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "weft/error.h"

namespace weft {

// A device of this process: cpu:0 is the host; WEFT_CPU_DEVICES=n makes cpu:1 to cpu:n, devices of
// their own on the host's processors; plugins bring more kinds.
class Device {
public:
  // cpu:0.
  Device() = default;
  // "cpu:1"; "cpu" is cpu:0. Error kDevice: there is none of that name.
  Device(std::string_view name, Location location = Location::current());
  Device(const char *name, Location location = Location::current())
      : Device(std::string_view(name), location) {}
  Device(const std::string &name, Location location = Location::current())
      : Device(std::string_view(name), location) {}

  // "cpu:1"
  std::string name() const;
  // "cpu"
  std::string kind() const;
  // Among those of its kind, from 0.
  int number() const;
  // Among all devices of the process, from 0.
  int index() const {
    return index_;
  }
  bool operator==(const Device &) const = default;
  // Its name: "cpu:1".
  friend std::ostream &operator<<(std::ostream &stream, const Device &device);

private:
  friend Device device_at(int index, Location location);
  uint8_t index_ = 0;
};

// All devices of the process, cpu:0 first.
std::vector<Device> devices();
// The one of that index. Error kDevice: there are fewer.
Device device_at(int index, Location location = Location::current());
// Where this thread's calls make what they make of no tensor: its innermost DeviceScope's, else
// Config::device.
Device current_device();

// While it lives, new tensors of this thread lie on the device.
class DeviceScope {
public:
  explicit DeviceScope(Device device);
  ~DeviceScope();
  DeviceScope(const DeviceScope &) = delete;
  DeviceScope &operator=(const DeviceScope &) = delete;

private:
  int before_;
};

// What a device's allocator has given out since the start: bytes that are in use now, and at most;
// bytes with those that are kept for reuse, and of them what is a part of blocks that are in use;
// calls.
struct MemoryStatistics {
  int64_t live_bytes = 0, peak_bytes = 0, reserved_bytes = 0, pinned_bytes = 0;
  int64_t allocations = 0, frees = 0, failures = 0;
};
// The statistics of the device's memory now.
MemoryStatistics memory_statistics(Device device = current_device());

} // namespace weft
