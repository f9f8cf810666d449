// How cuDNN computes an operation: the engine that is chosen for it, ready to run.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "backends/cuda/device/cuda_device.h"
#include "backends/cuda/device/cudnn_descriptor.h"

namespace weft::backends::cuda {

// A handle of cuDNN's whose calls go on a device's stream for programs. One thread at a time uses
// it, whoever holds the mutex.
struct CudnnStream {
  Cudnn library;
  std::mutex mutex;
  CudnnHandle handle = nullptr;
};

// That of the device, made at the first call; it lives as long as the process, as streams do. The
// device's context is the calling thread's.
absl::StatusOr<CudnnStream *> cudnn_stream(const CudaDevice &device, const Cudnn &library);

// Which engines may compute. Never one whose bits differ from run to run, nor one that rounds what
// it adds up to less than it computes in.
struct CudnnDemands {
  // Factors are multiplied as they are, and not as TF32 or narrower.
  bool full_float32 = true;
  // Winograd's algorithm and Fourier transforms: an infinity or NaN spreads to the results beside
  // those that read it, and rounding errors are relative to the largest number near.
  bool transforms = false;
  // Engines that are not taken for what their notes do not tell: number, and what that is.
  std::map<int64_t, std::string> untold;
  int64_t most_workspace_bytes = 0;
};

class CudnnPlan {
public:
  // For operations that are final and computed as one, each before those that read what it gives.
  // The first engine that suits, in the order of cuDNN's heuristics (mode A, then its list of
  // fallbacks). Unimplemented where none does, with what was wrong with each.
  static absl::StatusOr<std::unique_ptr<CudnnPlan>>
  choose(CudnnStream &stream, std::span<const CudnnDescriptor> operations,
         const CudnnDemands &demands);

  int64_t workspace_bytes() const {
    return workspace_bytes_;
  }
  // "engine 12 with 4096 bytes of workspace".
  std::string show() const;
  // Puts it on the stream. data: of the tensors with those unique ids, on the GPU.
  absl::Status run(std::span<const int64_t> ids, std::span<void *const> data, void *workspace);

private:
  static absl::StatusOr<std::unique_ptr<CudnnPlan>>
  prepare(CudnnStream &stream, CudnnDescriptor &config, const CudnnDemands &demands);
  CudnnPlan(CudnnStream &stream, CudnnDescriptor config, CudnnDescriptor plan, int64_t engine,
            int64_t workspace_bytes)
      : stream_(stream), config_(std::move(config)), plan_(std::move(plan)), engine_(engine),
        workspace_bytes_(workspace_bytes) {}

  CudnnStream &stream_;
  CudnnDescriptor config_, plan_; // the plan is one of the config, and goes before it
  int64_t engine_, workspace_bytes_;
};

} // namespace weft::backends::cuda
