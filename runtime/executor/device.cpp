#include "runtime/executor/device.h"

#include <unistd.h>

#include <cstdlib>

#include "runtime/memory/caching_allocator.h"
#include "runtime/memory/system_allocator.h"
#include "runtime/threading/parallel_for.h"

namespace weft::runtime {

Device::Device(std::string_view name, std::shared_ptr<Allocator> allocator, int threads)
    : name_(name), default_allocator_(allocator),
      executor_(Memory::create(std::move(allocator)), threads) {}

void Device::set_allocator(std::shared_ptr<Allocator> allocator) {
  executor_.set_memory(Memory::create(allocator ? std::move(allocator) : default_allocator_));
}

void Device::trim() {
  executor_.trim();
  if (auto *caching = dynamic_cast<CachingAllocator *>(default_allocator_.get()))
    caching->trim();
}

namespace {

// Waits for what is under way when the process ends. atexit() is too late: oneDNN registers the
// destructors of its generated code at its first calls, after atexit() here, so that they run
// first, and a program that still runs jumps into freed memory. exit() ends thread-local objects of
// its own thread before all of these.
struct Drain {
  ~Drain() {
    bool is_main_thread = gettid() == getpid(); // another thread ends without the process
    if (is_main_thread)
      cpu_device().executor().synchronize();
  }
};
thread_local Drain drain_at_exit;

} // namespace

Device &cpu_device() {
  // Never destroyed, since tensors with static storage may outlive any order of destruction. At
  // exit the executor finishes what is under way and ends its thread, before the libraries that it
  // calls are torn down.
  static Device *const device = [] {
    auto *made =
        new Device("cpu", std::make_shared<CachingAllocator>(std::make_shared<SystemAllocator>()),
                   default_threads());
    std::atexit([] { cpu_device().executor().stop(); });
    return made;
  }();
  [[maybe_unused]] Drain *made_at_first_use = &drain_at_exit;
  return *device;
}

} // namespace weft::runtime
