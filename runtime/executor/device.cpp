#include "runtime/executor/device.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/core/ends.h"
#include "runtime/core/thrown.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/memory/slab_allocator.h"
#include "runtime/memory/system_allocator.h"
#include "runtime/threading/parallel_for.h"

namespace weft::runtime {
namespace {

// In the place of one that a kind of devices did not give.
class NoAllocator : public Allocator {
public:
  explicit NoAllocator(std::string device) : device_(std::move(device)) {}
  absl::StatusOr<void *> allocate(int64_t, int64_t) override {
    return absl::InternalError(absl::StrCat("DeviceKind::allocator gave null for ", device_));
  }
  void free(void *, int64_t) override {}
  AllocatorStats stats() const override {
    return {};
  }

private:
  std::string device_;
};

std::shared_ptr<Allocator> allocator_of(const DeviceKind &kind, int number) {
  if (std::shared_ptr<Allocator> given = kind.allocator(number))
    return given;
  return std::make_shared<NoAllocator>(absl::StrCat(kind.name, ":", number));
}

// The failure of a copy by a function of the kind's.
absl::Status copied(const absl::Status &status, const char *direction, const std::string &device) {
  if (status.ok())
    return status;
  return absl::Status(status.code(),
                      absl::StrCat("copying ", direction, " ", device, ": ", status.message()));
}

} // namespace

Device::Device(const DeviceKind &kind, int number, int index)
    : kind_(kind), number_(number), index_(index), name_(absl::StrCat(kind.name, ":", number)),
      default_allocator_(allocator_of(kind, number)),
      executor_(Memory::create(default_allocator_), kind.threads, name_,
                is_host_memory() ? Waiters::kRun : Waiters::kSleep) {}

void Device::set_allocator(std::shared_ptr<Allocator> allocator) {
  executor_.set_memory(Memory::create(allocator ? std::move(allocator) : default_allocator_));
}

void Device::trim() {
  executor_.trim();
  if (auto *caching = dynamic_cast<CachingAllocator *>(default_allocator_.get()))
    caching->trim();
}

absl::Status Device::write(void *device, const void *host, int64_t bytes) const {
  if (bytes == 0)
    return absl::OkStatus();
  if (!is_host_memory())
    return copied(kind_.to_device(number_, device, host, bytes), "to", name_);
  std::memcpy(device, host, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status Device::read(void *host, const void *device, int64_t bytes) const {
  if (bytes == 0)
    return absl::OkStatus();
  if (!is_host_memory())
    return copied(kind_.to_host(number_, host, device, bytes), "from", name_);
  std::memcpy(host, device, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

namespace {

// What the kind's late_count gives; none where it throws, which is said.
int counted(const DeviceKind &kind) {
  try {
    return kind.late_count();
  } catch (...) {
    std::fprintf(stderr, "weft: there are no devices of kind '%s': its late_count %s\n",
                 kind.name.c_str(), thrown_text().c_str());
    return 0;
  }
}

// Tensors are blocks of their own where a sanitizer looks for accesses behind their ends.
std::shared_ptr<Allocator> host_allocator() {
  std::shared_ptr<Allocator> system = std::make_shared<SystemAllocator>();
#if !__has_feature(address_sanitizer)
  system = std::make_shared<SlabAllocator>(std::move(system));
#endif
  return std::make_shared<CachingAllocator>(std::move(system));
}

DeviceKind host(int count, int threads) {
  return {.name = "cpu",
          .count = count,
          .late_count = nullptr,
          .allocator = [](int) { return host_allocator(); },
          .to_device = nullptr,
          .to_host = nullptr,
          .threads = threads};
}

// WEFT_CPU_DEVICES: how many devices there are on the host's processors beside cpu:0.
int more_cpu_devices() {
  const char *text = std::getenv("WEFT_CPU_DEVICES");
  int count = 0;
  if (!text || !*text)
    return 0;
  const char *end = text + std::strlen(text);
  auto [stop, error] = std::from_chars(text, end, count);
  if (error == std::errc() && stop == end && count >= 0 && count < kMostDevices)
    return count;
  std::fprintf(stderr,
               "weft: WEFT_CPU_DEVICES is '%s'; it must be a number from 0 to %d. There are no "
               "devices on the processors but cpu:0\n",
               text, kMostDevices - 1);
  return 0;
}

// Never destroyed, since tensors with static storage may outlive any order of destruction.
class Table {
public:
  static Table &instance() {
    static auto *table = new Table;
    return *table;
  }

  Device &at(int index) {
    Device *made = made_[static_cast<size_t>(index)].load(std::memory_order_acquire);
    return made ? *made : make(index);
  }

  int count() {
    // Who comes meanwhile waits for the count.
    std::lock_guard counting(counting_mutex_);
    std::vector<std::shared_ptr<const DeviceKind>> uncounted;
    {
      std::lock_guard lock(mutex_);
      look();
      uncounted.swap(uncounted_);
    }
    for (const std::shared_ptr<const DeviceKind> &kind : uncounted) {
      int found = counted(*kind);
      std::lock_guard lock(mutex_);
      append(kind, std::clamp(found, 0, kMostDevices - static_cast<int>(entries_.size())))
          .IgnoreError();
    }
    std::lock_guard lock(mutex_);
    return static_cast<int>(entries_.size());
  }

  std::string name(int index) {
    std::lock_guard lock(mutex_);
    return name_of(entries_[static_cast<size_t>(index)]);
  }

  absl::StatusOr<int> find(std::string_view name) {
    std::string whole(name);
    if (name.find(':') == std::string_view::npos)
      whole += ":0";
    int looked_at = 0;
    {
      std::lock_guard lock(mutex_);
      look();
      for (; looked_at < static_cast<int>(entries_.size()); ++looked_at)
        if (name_of(entries_[static_cast<size_t>(looked_at)]) == whole)
          return looked_at;
    }
    int all = count();
    for (; looked_at < all; ++looked_at)
      if (this->name(looked_at) == whole)
        return looked_at;
    std::string known;
    for (int i = 0; i < all; ++i)
      absl::StrAppend(&known, i > 0 ? ", " : "", this->name(i));
    return absl::NotFoundError(absl::StrCat(
        "there is no device '", std::string(name), "'; there are ", known,
        whole.starts_with("cpu:") ? " (WEFT_CPU_DEVICES=n makes cpu:1 to cpu:n)" : ""));
  }

  absl::Status add(DeviceKind kind) {
    if (kind.name.empty() || !kind.allocator || !kind.to_device != !kind.to_host)
      return absl::InvalidArgumentError(
          "the kind of devices '" + kind.name +
          "' needs a name, an allocator, and both ways between the host and a device, or none");
    if (kind.name.find(':') != std::string::npos)
      return absl::InvalidArgumentError(
          "the kind of devices '" + kind.name +
          "' must have a name without ':', which stands before a device's number");
    if (kind.count < 0)
      return absl::InvalidArgumentError(absl::StrCat("the kind of devices '", kind.name, "' has ",
                                                     kind.count, " devices; 0 is the least"));
    std::lock_guard lock(mutex_);
    if (!names_.insert(kind.name).second)
      return absl::AlreadyExistsError("there is a kind of devices named '" + kind.name + "'");
    auto kept = std::make_shared<DeviceKind>(std::move(kind));
    if (!kept->late_count && looked_)
      return append(kept, kept->count);
    (kept->late_count ? uncounted_ : unseen_).push_back(std::move(kept));
    return absl::OkStatus();
  }

  std::vector<Device *> in_use() {
    std::vector<Device *> result;
    for (std::atomic<Device *> &each : made_)
      if (Device *made = each.load(std::memory_order_acquire))
        result.push_back(made);
    return result;
  }

private:
  struct Entry {
    std::shared_ptr<const DeviceKind> kind;
    int number;
  };

  Table() {
    names_.insert("cpu");
    append(std::make_shared<DeviceKind>(host(1, default_threads())), 1).IgnoreError();
  }

  // The first look at what there is beside cpu:0. Kinds register before main(), where a program has
  // not yet set its environment.
  void look() {
    if (std::exchange(looked_, true))
      return;
    if (int more = more_cpu_devices()) {
      int threads = std::max(default_threads() / more, 1);
      auto kind = std::make_shared<DeviceKind>(host(1 + more, threads));
      for (int i = 1; i <= more; ++i)
        entries_.push_back({kind, i});
    }
    for (const std::shared_ptr<const DeviceKind> &kind : std::exchange(unseen_, {}))
      append(kind, std::min(kind->count, kMostDevices - static_cast<int>(entries_.size())))
          .IgnoreError();
  }

  static std::string name_of(const Entry &entry) {
    return absl::StrCat(entry.kind->name, ":", entry.number);
  }

  absl::Status append(const std::shared_ptr<const DeviceKind> &kind, int count) {
    if (entries_.size() + static_cast<size_t>(count) > static_cast<size_t>(kMostDevices))
      return absl::ResourceExhaustedError(
          absl::StrCat("there are at most ", kMostDevices, " devices"));
    for (int i = 0; i < count; ++i)
      entries_.push_back({kind, i});
    return absl::OkStatus();
  }

  Device &make(int index) {
    std::lock_guard making(making_mutex_);
    std::atomic<Device *> &place = made_[static_cast<size_t>(index)];
    if (Device *made = place.load(std::memory_order_acquire))
      return *made;
    Entry entry;
    {
      std::lock_guard lock(mutex_);
      entry = entries_[static_cast<size_t>(index)];
    }
    auto *made = new Device(*entry.kind, entry.number, index);
    // At exit the executors finish what is under way and end their threads, before the libraries
    // that they call are torn down. Where a run calls exit() it can wait for none of them.
    if (!registered_)
      std::atexit([] {
        if (!is_inside_a_run())
          for (Device *device : devices_in_use())
            device->executor().stop();
        // Of the thread that calls exit(), which may have no part in what others computed.
        detail::has_ended = true;
      });
    registered_ = true;
    place.store(made, std::memory_order_release);
    return *made;
  }

  std::mutex mutex_, making_mutex_, counting_mutex_;
  std::vector<Entry> entries_;
  std::set<std::string> names_; // of kinds
  bool looked_ = false;
  // Kinds that registered before the first look, and those whose count is asked for when all are.
  std::vector<std::shared_ptr<const DeviceKind>> unseen_, uncounted_;
  std::array<std::atomic<Device *>, kMostDevices> made_{};
  bool registered_ = false;
};

// Waits for what is under way when the process ends. atexit() is too late: oneDNN registers the
// destructors of its generated code at its first calls, after atexit() here, so that they run
// first, and a program that still runs jumps into freed memory. exit() ends thread-local objects of
// its own thread before all of these. Then the thread is at its end.
struct Drain : EndOfThread {
  ~Drain() {
    bool is_main_thread = gettid() == getpid(); // another thread ends without the process
    if (is_main_thread && !is_inside_a_run())
      for (Device *device : devices_in_use())
        device->executor().synchronize();
  }
};
thread_local Drain drain_at_exit;

} // namespace

Device &device(int index) {
  [[maybe_unused]] Drain *made_at_first_use = &drain_at_exit;
  return Table::instance().at(index);
}

Device &cpu_device() {
  return device(0);
}

int device_count() {
  return Table::instance().count();
}

std::string device_name(int index) {
  return Table::instance().name(index);
}

absl::StatusOr<int> find_device(std::string_view name) {
  return Table::instance().find(name);
}

absl::Status register_device_kind(DeviceKind kind) {
  return Table::instance().add(std::move(kind));
}

Device *device_of(const Memory &memory) {
  for (Device *device : devices_in_use())
    if (device->memory().get() == &memory)
      return device;
  return nullptr;
}

std::vector<Device *> devices_in_use() {
  return Table::instance().in_use();
}

} // namespace weft::runtime
