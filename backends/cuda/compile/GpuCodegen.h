// One weft.fusion in, PTX out.
#pragma once

#include "absl/status/statusor.h"
#include "backends/cuda/device/cuda_code.h"
#include "compiler/codegen/Codegen.h"

namespace weft::backends::cuda {

// "sm_80", "sm_90": what kernels are made for. Every GPU of that generation or a later one runs
// them. InvalidArgument for another name.
absl::Status checkArchitecture(llvm::StringRef architecture);
// The newest of them that a GPU of that capability (90 for sm_90) runs.
std::string newestArchitecture(int capability);
inline constexpr const char *kDefaultArchitecture = "sm_80";
// What dumps call the assembly.
inline constexpr const char *kAssembly = "ptx";

// Makes the dialects that GPU code takes known to a context, beside those of
// registerCodegenDialects.
void registerGpuDialects(mlir::MLIRContext &context);

// The op of the fusion that no schedule takes; null where there is none.
mlir::Operation *unscheduled(ir::FusionOp fusion);
// The op of a fusion that has no kernel for sizes that vary, and why. Sums over such a size have an
// order that follows from it, and from the kernel that they are in.
struct OfOneSize {
  mlir::Operation *op = nullptr; // null: there is none
  llvm::StringRef why;
};
OfOneSize ofOneSize(ir::FusionOp fusion);
// What errors say of it.
inline constexpr const char *kNoSchedule = "has no schedule for GPUs; compile for another backend";

struct GpuKernel {
  compiler::KernelInfo info;
  std::vector<KernelEntry> entries; // the body's, then the finish's
  // What the entries' pointers lead to: inputs, outputs, partial results, the flag. Entries of
  // sizes that vary take the count of pieces behind them.
  struct Argument {
    int64_t bytes = 0, unit = 1; // of an element
    bool isInput = false;
    bool isCached = false; // read through a cache which sees no writes of the launch
    bool varies = false;   // has a part of the bytes, as the launch a part of the pieces
  };
  std::vector<Argument> arguments;
};

// Builds the kernel of `fusion` in `into`, as functions of the llvm and nvvm dialects. Fails with a
// diagnostic at the fusion's location.
mlir::FailureOr<GpuKernel> buildGpuKernel(ir::FusionOp fusion, llvm::StringRef symbol,
                                          mlir::ModuleOp into,
                                          const compiler::CodegenOptions &options = {});

// The PTX of a module that buildGpuKernel filled.
absl::StatusOr<std::string> emitPtx(mlir::ModuleOp module, llvm::StringRef architecture,
                                    const compiler::CodegenOptions &options = {});

} // namespace weft::backends::cuda
