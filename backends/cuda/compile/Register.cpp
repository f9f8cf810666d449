// Registers the backend when it is linked.
#include "backends/cuda/compile/CudaBackend.h"

namespace weft::backends::cuda {
namespace {

compiler::BackendRegistration registration("cuda", [] {
  return std::make_unique<CudaBackend>(CudaBackend::Parts{});
});

} // namespace
} // namespace weft::backends::cuda
