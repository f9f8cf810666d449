#include "backends/cuda/device/cudnn_descriptor.h"
#include "runtime/core/status.h"

#include <utility>

namespace weft::backends::cuda {

CudnnDescriptor::CudnnDescriptor(const Cudnn &library, CudnnKind kind, const char *what)
    : library_(library), what_(what) {
  status_ = library_.check(library_.create_descriptor(kind, &pointer_), what_);
}

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor &&other) noexcept
    : library_(other.library_), what_(other.what_),
      pointer_(std::exchange(other.pointer_, nullptr)), status_(std::move(other.status_)) {}

CudnnDescriptor &CudnnDescriptor::operator=(CudnnDescriptor &&other) noexcept {
  std::swap(library_, other.library_);
  std::swap(what_, other.what_);
  std::swap(pointer_, other.pointer_);
  std::swap(status_, other.status_);
  return *this;
}

CudnnDescriptor::~CudnnDescriptor() {
  if (pointer_ != nullptr)
    (void)library_.destroy_descriptor(pointer_);
}

void CudnnDescriptor::set(CudnnAttribute attribute, CudnnType type, int64_t count,
                          const void *values) {
  if (status_.ok())
    status_ =
        library_.check(library_.set_attribute(pointer_, attribute, type, count, values), what_);
}

void CudnnDescriptor::set(CudnnAttribute attribute, CudnnData data) {
  set(attribute, CudnnType::kDataType, 1, &data);
}

void CudnnDescriptor::set(CudnnAttribute attribute, const std::vector<int64_t> &values) {
  set(attribute, CudnnType::kInt64, static_cast<int64_t>(values.size()), values.data());
}

void CudnnDescriptor::set(CudnnAttribute attribute, int64_t value) {
  set(attribute, CudnnType::kInt64, 1, &value);
}

void CudnnDescriptor::set(CudnnAttribute attribute, float value) {
  set(attribute, CudnnType::kFloat, 1, &value);
}

void CudnnDescriptor::set(CudnnAttribute attribute, CudnnHandle handle) {
  set(attribute, CudnnType::kHandle, 1, &handle);
}

void CudnnDescriptor::set(CudnnAttribute attribute, bool value) {
  set(attribute, CudnnType::kBoolean, 1, &value);
}

void CudnnDescriptor::set(CudnnAttribute attribute, const CudnnDescriptor &other) {
  set(attribute, CudnnType::kDescriptor, 1, &other.pointer_);
}

void CudnnDescriptor::set(CudnnAttribute attribute, std::span<const CudnnDescriptor> others) {
  std::vector<CudnnPointer> pointers;
  for (const CudnnDescriptor &other : others)
    pointers.push_back(other.pointer_);
  set(attribute, CudnnType::kDescriptor, std::ssize(pointers), pointers.data());
}

absl::Status CudnnDescriptor::finalize() {
  if (status_.ok())
    status_ = library_.check(library_.finalize(pointer_), what_);
  return status_;
}

absl::StatusOr<int64_t> CudnnDescriptor::get(CudnnAttribute attribute, CudnnType type, int64_t most,
                                             void *values) const {
  if (!status_.ok())
    return status_;
  int64_t count = 0;
  WEFT_RETURN_IF_ERROR(library_.check(
      library_.get_attribute(pointer_, attribute, type, most, &count, values), what_));
  return count;
}

} // namespace weft::backends::cuda
