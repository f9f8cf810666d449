// Kernels from fusions: several at a time, each distinct one once in the life of the process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backend/CompileOptions.h"
#include "compiler/codegen/Codegen.h"
#include "dialects/plan/ir/Plan.h"

namespace weft::compiler {

struct CompiledKernel {
  KernelInfo info;
  std::string object; // a relocatable ELF object that exports info.symbol and info.finish
};

// Reads what was made for the same fusion and target before from a cache of the process, bounded in bytes. Thread-safe.
class KernelCompiler {
public:
  // One for the process.
  static KernelCompiler &instance();

  // Compiles all of the kernels, on up to options.compileThreads threads, each in MLIR contexts of its own. The results stand in the order
  // of `kernels`. The first failure in that order is the error: Internal, with codegen's diagnostics and the kernel's name.
  absl::StatusOr<std::vector<std::shared_ptr<const CompiledKernel>>>
  compile(llvm::ArrayRef<plan::KernelOp> kernels, const TargetInfo &target, const CompileOptions &options, llvm::StringRef dumpFolder);

private:
  KernelCompiler();
  ~KernelCompiler();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Writes what codegen says of a kernel into its plan.kernel.
void attachKernelInfo(plan::KernelOp kernel, const KernelInfo &info);

} // namespace weft::compiler
