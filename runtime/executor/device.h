// What a process has of a device: its memory and its executor.
#pragma once

#include <memory>
#include <string_view>

#include "runtime/executor/executor.h"
#include "runtime/memory/allocator.h"
#include "runtime/memory/memory.h"

namespace weft::runtime {

class Device {
public:
  Device(std::string_view name, std::shared_ptr<Allocator> allocator, int threads);

  std::string_view name() const {
    return name_;
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
  // Gives unused memory back to the system: the shared arena and, with the default allocator, what
  // it keeps for reuse.
  void trim();

private:
  std::string_view name_;
  std::shared_ptr<Allocator> default_allocator_;
  Executor executor_;
};

// The host. Made at first use, with a caching allocator and default_threads(); lives until the
// process ends, its executor until exit().
Device &cpu_device();

} // namespace weft::runtime
