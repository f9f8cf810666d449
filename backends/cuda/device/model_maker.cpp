// What models compiled ahead of time run on: weft_executable_maker of runtime/aot/weft_model.h.
#include <cstdint>

#include "backends/cuda/device/cuda_executable.h"
#include "backends/cuda/device/cuda_libraries.h"
#include "runtime/aot/c_executable.h"
#include "runtime/core/status.h"

namespace {

using namespace weft;
using namespace weft::backends::cuda;

absl::StatusOr<std::shared_ptr<runtime::Executable>> make(std::span<const std::byte> bytes,
                                                          std::span<const std::byte> code) {
  WEFT_ASSIGN_OR_RETURN(runtime::Program program, runtime::deserialize(bytes));
  WEFT_ASSIGN_OR_RETURN(std::vector<KernelModule> modules, read_modules(code));
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<CudaDevice> device, CudaDevice::get(0));
  WEFT_ASSIGN_OR_RETURN(auto executable,
                        CudaExecutable::create(std::move(program), std::move(modules), device,
                                               library_resolver(device)));
  return executable;
}

} // namespace

extern "C" const char *weft_cuda_make_executable(const void *program, uint64_t program_bytes,
                                                 const void *code, uint64_t code_bytes,
                                                 weft_executable *executable) {
  auto bytes = [](const void *data, uint64_t size) {
    return std::span(static_cast<const std::byte *>(data), static_cast<size_t>(size));
  };
  return runtime::give_executable(make(bytes(program, program_bytes), bytes(code, code_bytes)),
                                  executable);
}
