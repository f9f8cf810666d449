// What a part of a program puts on the stream, kept as graphs of launches: a graph is one call of
// the driver, where each launch of its own takes longer than many kernels do.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/cuda/device/cuda_device.h"

namespace weft::backends::cuda {

// Instances for as many sets of addresses: a loop that writes two buffers by turns needs two, each
// of them a few kilobytes a launch.
inline constexpr size_t kMostGraphs = 4;
// Sets of addresses that are remembered, to find those that come again.
inline constexpr size_t kMostSeen = 32;
// A part of fewer instructions goes on the stream as it is: a graph's launch takes as long as some
// launches.
inline constexpr size_t kLeastGraphInstructions = 6;

// Used by one thread at a time, that of the stream.
class LaunchGraphs {
public:
  explicit LaunchGraphs(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}
  LaunchGraphs(LaunchGraphs &&) = default;
  ~LaunchGraphs();

  // Does what `enqueue` would do on the device's stream. `enqueue` puts the same launches there
  // each time, which may differ in addresses alone, and these follow from `addresses`: where a
  // graph was made for equal ones it is not called. A graph is made for addresses that come again,
  // since that takes longer than the launches, which run meanwhile; not at the first run, since
  // libraries load code at their first call, which no graph takes. Where none
  // can be made, each launch goes by itself from then on, which is told once, on standard error;
  // where memory is missing for it, this time alone.
  absl::Status run(std::vector<DevicePointer> addresses,
                   const std::function<absl::Status()> &enqueue);

private:
  struct Instance {
    std::vector<DevicePointer> addresses;
    GraphExec exec = nullptr;
    uint64_t used = 0; // the number of its last run
  };
  void clear();
  absl::Status record(const std::function<absl::Status()> &enqueue, Graph &graph) const;
  absl::Status assign(Instance &instance, Graph graph) const;
  bool comes_again(const std::vector<DevicePointer> &addresses);
  // Null for addresses that are new.
  absl::StatusOr<Instance *> instance_of(std::vector<DevicePointer> addresses,
                                         const std::function<absl::Status()> &enqueue);

  std::shared_ptr<CudaDevice> device_;
  std::vector<Instance> instances_;
  std::deque<size_t> seen_; // hashes of addresses that have no graph
  uint64_t runs_ = 0;
  bool refused_ = false;
};

} // namespace weft::backends::cuda
