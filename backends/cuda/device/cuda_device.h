// A GPU: its context, its stream, its memory.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "backends/cuda/device/driver.h"
#include "runtime/memory/memory.h"

namespace weft::backends::cuda {

class CudaDevice {
public:
  // The first GPU of the process. The driver is opened at the first call; an error (NotFound: no
  // driver, FailedPrecondition: no GPU) says what was looked for, and the next call tries again.
  // Lives until the process ends.
  static absl::StatusOr<std::shared_ptr<CudaDevice>> get();
  // One with a driver of the caller's.
  static absl::StatusOr<std::shared_ptr<CudaDevice>> create(const Driver &driver);

  const Driver &driver() const {
    return driver_;
  }
  Stream stream() const {
    return stream_;
  }
  // Memory on the GPU, with a caching allocator.
  const std::shared_ptr<runtime::Memory> &memory() const {
    return memory_;
  }
  // Of the architecture: 90 for sm_90.
  int capability() const {
    return capability_;
  }
  // Makes the GPU's context the calling thread's: before every other call.
  absl::Status enter() const;
  // Waits for all that was submitted.
  absl::Status synchronize() const;

private:
  CudaDevice() = default;

  Driver driver_;
  Context context_ = nullptr;
  Stream stream_ = nullptr;
  int capability_ = 0;
  std::shared_ptr<runtime::Memory> memory_;
};

} // namespace weft::backends::cuda
