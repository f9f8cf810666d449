#include "frontend/recorder/runs/executors.h"

#include "frontend/recorder/record/state.h"
#include "frontend/recorder/runs/exchange.h"
#include "runtime/executor/device.h"
#include "runtime/profile/profile.h"

namespace weft::recorder {

constinit thread_local int16_t rank_device = -1;

// Ranks that are threads each have one line for all that they run on the host's processors. In an
// executor that they shared, a run that waits for the other ranks would keep these from their turn,
// and all of them would wait for ever.
runtime::Executor &executor_for(runtime::Executor &given) {
  if (rank_device < 0)
    return given;
  for (runtime::Device *device : runtime::devices_in_use())
    if (device->is_host_memory() && &device->executor() == &given)
      return runtime::device(rank_device).executor();
  return given; // of a group's calls, or of another kind of device
}

// The executors that the thread waits for: all of the process, but of a rank that is a thread of it
// only its own, and that of a device without processors of the host's that it computes on. Others
// may wait for this one.
static std::vector<std::shared_ptr<runtime::Executor>> executors() {
  std::vector<std::shared_ptr<runtime::Executor>> found = exchange_executors();
  for (runtime::Device *device : runtime::devices_in_use())
    if (rank_device < 0 || device->index() == rank_device ||
        (device->index() == default_device() && !device->is_host_memory()))
      found.emplace_back(std::shared_ptr<void>(), &device->executor());
  return found;
}

void drain() {
  runtime::profile::Span span(runtime::profile::Kind::kWait, "wait for everything");
  for (const std::shared_ptr<runtime::Executor> &executor : executors())
    executor->synchronize();
}

void make_room() {
  RecorderMutex::Pause pause(recorder_mutex());
  for (const std::shared_ptr<runtime::Executor> &executor : executors())
    executor->make_room();
}

} // namespace weft::recorder
