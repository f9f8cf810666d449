// What compiling for a GPU takes, wherever it runs afterwards.
#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/compile/GpuCodegen.h"
#include "backends/cuda/device/cuda_code.h"
#include "compiler/backend/CompileOptions.h"
#include "compiler/backend/CompileReport.h"
#include "compiler/link/Compile.h"
#include "compiler/link/KernelCompiler.h"
#include "runtime/executable/program.h"
#include "runtime/executable/size_table.h"

namespace weft::compiler {
class ProviderSet;
} // namespace weft::compiler

namespace weft::backends::cuda {

// Kernels as write_modules() has them, for an architecture that checkArchitecture takes.
// Unimplemented for an op without a schedule.
compiler::KernelMaker kernelMaker(llvm::StringRef architecture);
// The same; `built` sees each kernel's functions before they become PTX.
using KernelHook = std::function<absl::Status(mlir::ModuleOp code, const GpuKernel &kernel)>;
compiler::KernelMaker kernelMaker(llvm::StringRef architecture, llvm::StringRef key,
                                  KernelHook built);

// What a compilation gives its phases; `kernels` gets those that are made.
using Kernels = std::vector<std::shared_ptr<const compiler::CompiledKernel>>;
compiler::CompileRequest compileRequest(const compiler::CompileOptions &options,
                                        const compiler::KernelMaker &maker,
                                        const compiler::ProviderSet *providers,
                                        std::shared_ptr<Kernels> kernels);

struct CompiledProgram {
  runtime::Program program; // at the largest sizes
  runtime::SizeTable sizes;
  std::vector<KernelModule> modules;
};
absl::StatusOr<CompiledProgram> compileProgram(mlir::ModuleOp module,
                                               const compiler::CompileOptions &options,
                                               const compiler::KernelMaker &maker,
                                               const compiler::ProviderSet *providers,
                                               compiler::CompileReport *report);

} // namespace weft::backends::cuda
