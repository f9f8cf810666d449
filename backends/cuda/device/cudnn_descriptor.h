// A descriptor of cuDNN's, with a life of its own.
#pragma once

#include <span>
#include <vector>

#include "backends/cuda/device/cudnn.h"

namespace weft::backends::cuda {

class CudnnDescriptor {
public:
  // Of that kind, not final yet; `what` is for errors ("describing a tensor"), and stays valid.
  CudnnDescriptor(const Cudnn &library, CudnnKind kind, const char *what);
  CudnnDescriptor(CudnnDescriptor &&other) noexcept;
  CudnnDescriptor &operator=(CudnnDescriptor &&other) noexcept;
  ~CudnnDescriptor();

  // After a first failure nothing is called any more, and finalize() says which it was.
  void set(CudnnAttribute attribute, CudnnType type, int64_t count, const void *values);
  void set(CudnnAttribute attribute, CudnnData data);
  void set(CudnnAttribute attribute, const std::vector<int64_t> &values);
  void set(CudnnAttribute attribute, int64_t value);
  void set(CudnnAttribute attribute, float value);
  void set(CudnnAttribute attribute, CudnnHandle handle);
  void set(CudnnAttribute attribute, bool value);
  void set(CudnnAttribute attribute, const CudnnDescriptor &other);
  void set(CudnnAttribute attribute, std::span<const CudnnDescriptor> others);
  absl::Status finalize();

  // How many values there are; where `values` is not null, at most `most` are written.
  absl::StatusOr<int64_t> get(CudnnAttribute attribute, CudnnType type, int64_t most,
                              void *values) const;
  CudnnPointer pointer() const {
    return pointer_;
  }

private:
  Cudnn library_;
  const char *what_;
  CudnnPointer pointer_ = nullptr;
  absl::Status status_;
};

} // namespace weft::backends::cuda
