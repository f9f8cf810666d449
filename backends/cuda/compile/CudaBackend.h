// NVIDIA GPUs: kernels compiled to PTX by LLVM, loaded by the driver, matrix products by cuBLASLt.
#pragma once

#include <functional>

#include "backends/cuda/device/cuda_code.h"
#include "backends/cuda/device/cuda_device.h"
#include "compiler/backend/Backend.h"
#include "compiler/link/KernelCompiler.h"
#include "compiler/link/RunsPhases.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cuda {

class CudaExecutable;
struct CompiledProgram;

// Registered as "cuda", as is the kind of its devices. Its executables take and give buffers of
// those; of the host's they make copies at the edges (WEFT_BACKEND=cuda with tensors on cpu:0).
//
// compile() needs a GPU and its driver, which are looked for when it is called: Unavailable, and
// what is missing, where there is none. It compiles for the first GPU; on others its executables
// load themselves anew. Unimplemented for ops without a schedule, and for sizes that vary in a
// kernel that has one. compileAheadOfTime() needs neither, and takes one size. options.cpu is the
// architecture ("sm_90"): by default the GPU's own, ahead of time kDefaultArchitecture. Work on
// stable arguments is done once for each version of them, and lies on the GPU between runs; ahead
// of time nothing is prepared.
class CudaBackend : public compiler::Backend, public compiler::RunsPhases {
public:
  // What tests put in a GPU's place.
  struct Parts {
    std::string name = "cuda";
    std::function<absl::StatusOr<std::shared_ptr<CudaDevice>>(int number)> device = CudaDevice::get;
    std::function<compiler::KernelMaker(llvm::StringRef architecture)>
        kernels; // empty: kernelMaker
    std::function<runtime::LibraryResolver(std::shared_ptr<CudaDevice>)>
        libraries; // empty: library_resolver
  };
  explicit CudaBackend(Parts parts);

  llvm::StringRef name() const override {
    return parts_.name;
  }
  llvm::StringRef device() const override {
    return "cpu";
  }
  void registerDialects(mlir::DialectRegistry &registry) const override;
  absl::StatusOr<std::shared_ptr<runtime::Executable>>
  compile(mlir::ModuleOp module, const compiler::CompileOptions &options,
          compiler::CompileReport *report) override;
  absl::StatusOr<compiler::PhaseRun> phases(const compiler::CompileOptions &options) override;
  std::string usualProcessor() const override;
  compiler::StableUse stableUse() const override {
    return {.values = true};
  }
  std::string targetKey(const compiler::CompileOptions &options) const override;
  std::string whyNotCachable(const compiler::CompileOptions &options) const override;
  std::optional<std::string> serialize(const runtime::Executable &executable) const override;
  absl::StatusOr<std::shared_ptr<runtime::Executable>>
  load(llvm::ArrayRef<char> blob) const override;
  absl::StatusOr<std::vector<std::string>>
  compileAheadOfTime(mlir::ModuleOp module, const compiler::AotOptions &options) override;

private:
  absl::StatusOr<std::shared_ptr<CudaDevice>> findDevice() const;
  absl::StatusOr<std::shared_ptr<CudaExecutable>>
  executable(CompiledProgram compiled, const std::shared_ptr<CudaDevice> &device) const;

  Parts parts_;
};

} // namespace weft::backends::cuda
