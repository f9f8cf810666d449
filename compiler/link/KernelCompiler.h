// Kernels from fusions: several at a time, each distinct one once in the life of the process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backend/CompileOptions.h"
#include "compiler/codegen/Codegen.h"
#include "dialects/plan/ir/Plan.h"
#include "runtime/core/caches.h"

namespace weft::compiler {

struct CompiledKernel {
  KernelInfo info;
  std::string object; // a relocatable ELF object that exports info.symbol and info.finish; of other
                      // backends what they run
};

// How kernels are made.
struct KernelMaker {
  std::string key; // all that decides, beside the fusion, what `make` gives: what a program of them
                   // says it needs
  std::string assembly = "s"; // the stage that dumps assembly
  // Kernels count on operands that begin at a multiple of so many bytes; 1: of their elements.
  int64_t operandAlignment = 1;
  // Loads what `make` needs into a context, which may have it already.
  std::function<void(mlir::MLIRContext &context)> prepare;
  // The kernel under that symbol. Diagnostics are added to the failure by the caller.
  std::function<absl::StatusOr<CompiledKernel>(ir::FusionOp fusion, llvm::StringRef symbol,
                                               const CodegenOptions &options)>
      make;
};
// buildKernel and emitObject.
KernelMaker hostKernelMaker(const TargetInfo &target);

// Reads what was made for the same fusion and key before from a cache of the process, bounded in
// bytes. Thread-safe.
class KernelCompiler {
public:
  // One for the process.
  static KernelCompiler &instance();

  // Compiles all of the kernels, on up to options.compileThreads threads, each in MLIR contexts of
  // its own. What codegen says of each stands in the order of `kernels`, or why it has none: with
  // codegen's diagnostics. Those that were made are added to `made`.
  std::vector<absl::StatusOr<KernelInfo>>
  compile(llvm::ArrayRef<plan::KernelOp> kernels, const KernelMaker &maker,
          const CompileOptions &options, llvm::StringRef dumpFolder,
          std::vector<std::shared_ptr<const CompiledKernel>> &made);

  // Of the kernels, and of the contexts that wait for the next ones.
  runtime::CacheUse use() const;
  runtime::CacheUse contextUse() const;

private:
  KernelCompiler();
  ~KernelCompiler();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Writes what codegen says of a kernel into its plan.kernel.
void attachKernelInfo(plan::KernelOp kernel, const KernelInfo &info);

} // namespace weft::compiler
