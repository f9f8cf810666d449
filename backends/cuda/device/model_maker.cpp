// What models compiled ahead of time run on: weft_executable_maker of runtime/aot/weft_model.h.
#include <cstdint>

#include "backends/cuda/device/cuda_executable.h"
#include "backends/cuda/device/cuda_libraries.h"

namespace {

using namespace weft;
using namespace weft::backends::cuda;

absl::StatusOr<std::shared_ptr<runtime::Executable>> make(runtime::Program program,
                                                          std::span<const std::byte> code) {
  absl::StatusOr<std::vector<KernelModule>> modules = read_modules(code);
  if (!modules.ok())
    return modules.status();
  absl::StatusOr<std::shared_ptr<CudaDevice>> device = CudaDevice::get();
  if (!device.ok())
    return device.status();
  auto executable = CudaExecutable::create(std::move(program), *std::move(modules), *device,
                                           library_resolver(*device));
  if (!executable.ok())
    return executable.status();
  return *std::move(executable);
}

} // namespace

extern "C" void weft_cuda_make_executable(void *program, const void *code, uint64_t code_bytes,
                                          void *executable) {
  *static_cast<absl::StatusOr<std::shared_ptr<runtime::Executable>> *>(executable) =
      make(std::move(*static_cast<runtime::Program *>(program)),
           {static_cast<const std::byte *>(code), static_cast<size_t>(code_bytes)});
}
