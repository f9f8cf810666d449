#include "backends/cuda/device/launch_graphs.h"

#include <algorithm>
#include <iostream>
#include <mutex>
#include <string_view>

namespace weft::backends::cuda {

// Of cuda.h: CUstreamCaptureMode, in which other threads may do what they like.
constexpr int kThreadLocal = 1;

LaunchGraphs::~LaunchGraphs() {
  clear();
}

void LaunchGraphs::clear() {
  for (const Instance &instance : instances_)
    if (instance.exec != nullptr)
      (void)device_->driver().graph_exec_destroy(instance.exec);
  instances_.clear();
}

absl::Status LaunchGraphs::record(const std::function<absl::Status()> &enqueue,
                                  Graph &graph) const {
  const Driver &driver = device_->driver();
  absl::Status status =
      driver.check(driver.stream_begin_capture(device_->stream(), kThreadLocal),
                   "recording a graph of launches");
  if (!status.ok())
    return status;
  status = enqueue();
  // In any case: the stream does nothing else before.
  absl::Status ended = driver.check(driver.stream_end_capture(device_->stream(), &graph),
                                    "recording a graph of launches");
  return status.ok() ? ended : status;
}

// The graph's launches become the instance's. One that has others before takes over what differs.
absl::Status LaunchGraphs::assign(Instance &instance, Graph graph) const {
  const Driver &driver = device_->driver();
  if (instance.exec != nullptr) {
    GraphUpdate result{};
    if (driver.graph_exec_update(instance.exec, graph, &result) == 0)
      return absl::OkStatus();
    // A library chose another kernel, say.
    (void)driver.graph_exec_destroy(instance.exec);
    instance.exec = nullptr;
  }
  return driver.check(driver.graph_instantiate(&instance.exec, graph, 0),
                      "making a graph of launches ready");
}

bool LaunchGraphs::comes_again(const std::vector<DevicePointer> &addresses) {
  size_t hash = std::hash<std::string_view>()(
      {reinterpret_cast<const char *>(addresses.data()), addresses.size() * sizeof(DevicePointer)});
  if (auto found = std::find(seen_.begin(), seen_.end(), hash); found != seen_.end()) {
    seen_.erase(found);
    return true;
  }
  seen_.push_back(hash);
  if (seen_.size() > kMostSeen)
    seen_.pop_front();
  return false;
}

absl::StatusOr<LaunchGraphs::Instance *>
LaunchGraphs::instance_of(std::vector<DevicePointer> addresses,
                          const std::function<absl::Status()> &enqueue) {
  for (Instance &instance : instances_)
    if (instance.addresses == addresses)
      return &instance;
  if (!comes_again(addresses))
    return nullptr;
  Graph graph = nullptr;
  absl::Status status = record(enqueue, graph);
  if (!status.ok()) {
    if (graph != nullptr)
      (void)device_->driver().graph_destroy(graph);
    return status;
  }
  if (instances_.size() < kMostGraphs)
    instances_.emplace_back();
  auto oldest = std::min_element(
      instances_.begin(), instances_.end(),
      [](const Instance &a, const Instance &b) { return a.used < b.used; });
  oldest->addresses = std::move(addresses);
  status = assign(*oldest, graph);
  (void)device_->driver().graph_destroy(graph);
  if (status.ok())
    return &*oldest;
  instances_.erase(oldest);
  return status;
}

absl::Status LaunchGraphs::run(std::vector<DevicePointer> addresses,
                               const std::function<absl::Status()> &enqueue) {
  ++runs_;
  if (refused_)
    return enqueue();
  absl::StatusOr<Instance *> instance = instance_of(std::move(addresses), enqueue);
  if (!instance.ok()) {
    // Memory that is missing may be there the next time.
    if (absl::IsResourceExhausted(instance.status()))
      return enqueue();
    refused_ = true;
    clear();
    static std::once_flag told;
    std::call_once(told, [&] {
      std::cerr << "weft: launches go to the GPU one by one, since no graph was made of some: "
                << instance.status().message() << "\n";
    });
    return enqueue();
  }
  if (*instance == nullptr)
    return enqueue();
  (*instance)->used = runs_;
  return device_->driver().check(
      device_->driver().graph_launch((*instance)->exec, device_->stream()), "launching a graph");
}

} // namespace weft::backends::cuda
