// What a process has of a device: its memory and its executor.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/executor/executor.h"
#include "runtime/memory/allocator.h"
#include "runtime/memory/memory.h"

namespace weft::runtime {

// Of all kinds together: a device's place in the table fits into a byte.
inline constexpr int kMostDevices = 255;

// What the devices of one kind have in common.
struct DeviceKind {
  std::string name; // "cuda"
  int count = 0;    // numbers 0 to count - 1
  // Gives the count instead, where that takes time (a driver has to be asked): called once, when a
  // device of another name than those that are known is wanted, or all of them.
  std::function<int()> late_count;
  // Where the memory of device `number` comes from; never null.
  std::function<std::shared_ptr<Allocator>(int number)> allocator;
  // Between the host's memory and that of device `number`. Null: the host reads and writes the
  // device's memory itself.
  std::function<absl::Status(int number, void *device, const void *host, int64_t bytes)> to_device;
  std::function<absl::Status(int number, void *host, const void *device, int64_t bytes)> to_host;
  int threads = 1; // of the executor of each
};

class Device {
public:
  Device(const DeviceKind &kind, int number, int index);

  // "cpu:1"
  const std::string &name() const {
    return name_;
  }
  const std::string &kind() const {
    return kind_.name;
  }
  int number() const {
    return number_;
  }
  // Its place in the table of devices; the host has 0.
  int index() const {
    return index_;
  }
  // Whether the host reads and writes its memory.
  bool is_host_memory() const {
    return !kind_.to_host;
  }
  Executor &executor() {
    return executor_;
  }
  // Where new tensors live. Buffers keep the memory that they came from.
  std::shared_ptr<Memory> memory() const {
    return executor_.memory();
  }
  // From now on every byte comes from this allocator; what was taken before goes back to the old
  // one. Null: the default.
  void set_allocator(std::shared_ptr<Allocator> allocator);
  const std::shared_ptr<Allocator> &default_allocator() const {
    return default_allocator_;
  }
  // Gives unused memory back to the system: the shared arena and, with the default allocator, what
  // it keeps for reuse.
  void trim();

  // Between memory of the host and of the device; nothing may be under way on either.
  absl::Status write(void *device, const void *host, int64_t bytes) const;
  absl::Status read(void *host, const void *device, int64_t bytes) const;

private:
  DeviceKind kind_;
  int number_, index_;
  std::string name_;
  std::shared_ptr<Allocator> default_allocator_;
  Executor executor_;
};

// The process's devices. A device is made at its first use, with its executor's thread, and lives
// until the process ends, its executor until exit(). All functions may be called from any thread.

// cpu:0, the host: with a caching allocator and default_threads().
Device &cpu_device();
// 0 <= index < device_count().
Device &device(int index);
// Of all kinds that are registered. cpu:0 stands first, then cpu:1 to cpu:n for WEFT_CPU_DEVICES=n:
// devices of their own on the host's processors, each with its memory, executor and threads, of
// which they share as many among them as cpu:0 has. The variable is read at the first look at what
// there is beside cpu:0.
int device_count();
// "cpu:1", without making the device.
std::string device_name(int index);
// The index of "cpu:1" or of "cuda", which is cuda:0. NotFound, with those that there are.
absl::StatusOr<int> find_device(std::string_view name);
// AlreadyExists where there is a kind of that name; InvalidArgument for one without a name or an
// allocator, with one of the two ways between the host and a device, with ':' in its name, or with
// a negative count. There are kMostDevices in all: ResourceExhausted beyond them, or fewer devices
// of a kind that registers before the first look.
absl::Status register_device_kind(DeviceKind kind);
// Those that were made.
std::vector<Device *> devices_in_use();
// The one whose memory it is now; null where it is none's.
Device *device_of(const Memory &memory);

} // namespace weft::runtime
