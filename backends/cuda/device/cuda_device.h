// A GPU: its context, its streams, its memory.
#pragma once

#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "backends/cuda/device/driver.h"
#include "backends/cuda/device/module_cache.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/memory/memory.h"

namespace weft::backends::cuda {

class CudaDevice {
public:
  // That GPU of the process. The driver is opened at the first call; an error (NotFound: no driver,
  // FailedPrecondition: no GPU) says what was looked for, and the next call tries again. Lives
  // until the process ends.
  static absl::StatusOr<std::shared_ptr<CudaDevice>> get(int number);
  // One with a driver of the caller's.
  static absl::StatusOr<std::shared_ptr<CudaDevice>> create(const Driver &driver, int number = 0);

  const Driver &driver() const {
    return driver_;
  }
  int number() const {
    return number_;
  }
  // Programs'. One run at a time puts work there, and waits for it: who holds the mutex. What
  // another put there while a graph of launches is recorded would be in that graph.
  Stream stream() const {
    return stream_;
  }
  std::mutex &stream_mutex() const {
    return stream_mutex_;
  }
  // Gives back what is prepared, and what the allocator keeps unused.
  void trim() const;
  // Memory on the GPU, and the caching allocator that it comes from.
  const std::shared_ptr<runtime::Memory> &memory() const {
    return memory_;
  }
  std::shared_ptr<runtime::Allocator> allocator() const {
    return allocator_;
  }
  // Code on the GPU.
  ModuleCache &modules() const {
    return *modules_;
  }
  // Of the architecture: 90 for sm_90.
  int capability() const {
    return capability_;
  }
  // Makes the GPU's context the calling thread's: before every other call.
  absl::Status enter() const;
  // Waits for all that programs have submitted.
  absl::Status synchronize() const;
  // Between the host's memory and the GPU's; they return when the bytes are there, and wait for no
  // program. From any thread.
  absl::Status write(void *device, const void *host, int64_t bytes) const;
  absl::Status read(void *host, const void *device, int64_t bytes) const;

private:
  CudaDevice() = default;

  Driver driver_;
  Context context_ = nullptr;
  Stream stream_ = nullptr, copies_ = nullptr;
  mutable std::mutex stream_mutex_;
  int number_ = 0, capability_ = 0;
  std::unique_ptr<ModuleCache> modules_;
  std::shared_ptr<runtime::CachingAllocator> allocator_;
  std::shared_ptr<runtime::Memory> memory_;
};

} // namespace weft::backends::cuda
