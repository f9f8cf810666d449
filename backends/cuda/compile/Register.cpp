// Registers the backend and its devices when it is linked.
#include "backends/cuda/compile/CudaBackend.h"
#include "backends/cuda/device/device_kind.h"

namespace weft::backends::cuda {
namespace {

compiler::BackendRegistration registration("cuda", [] {
  return std::make_unique<CudaBackend>(CudaBackend::Parts{});
});
// No other library has taken the name: this is the first.
[[maybe_unused]] const absl::Status devices = runtime::register_device_kind(
    device_kind("cuda", [] { return open_driver(); }, CudaDevice::get));

} // namespace
} // namespace weft::backends::cuda
