// One weft.fusion in, native code out: the API of kernel code generation. Safe from several threads
// as long as each uses its own MLIRContext.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/codegen/Kernel.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringRef.h"

namespace weft::ir {
class FusionOp;
}

namespace weft::compiler {

// The machine that kernels are made for. Only instruction selection depends on it: results are the
// same bits on all x86-64 machines with FMA, since the emitted code fixes lanes and order.
struct TargetInfo {
  std::string triple;
  std::string cpu;
  std::string features;

  // The machine that runs this process.
  static TargetInfo host();
  // A named CPU of the host's architecture ("x86-64-v3", "znver3", ...); an unknown name is an
  // error that lists how to see the known ones.
  static absl::StatusOr<TargetInfo> named(llvm::StringRef cpu);
  // InvalidArgument for a feature that LLVM does not know, and for a CPU without the instructions
  // that kernels are made of.
  absl::Status checkUsable() const;
  // What a disk cache must key on.
  std::string key() const {
    return triple + "|" + cpu + "|" + features;
  }
};

// Called with the name of a stage ("linalg", "loops", "math", "llvm"; "ll", "s" from emitObject)
// and its text. Stages are only printed when a hook is given.
using DumpHook = std::function<void(llvm::StringRef stage, llvm::StringRef text)>;

struct CodegenOptions {
  bool verify = false; // run the MLIR and LLVM verifiers after each stage (tests do)
  DumpHook dump;
  // Gets what passes of users say, as lines for explain; null: nobody asks.
  std::vector<std::string> *remarks = nullptr;
};

// The dialects that the stages of kernels are made of, as dumps show them.
void insertCodegenDialects(mlir::DialectRegistry &registry);
// Makes the dialects that codegen emits known to a context; call it before the context is used from
// threads.
void registerCodegenDialects(mlir::MLIRContext &context);

// Builds the kernel of `fusion` in `into`, as functions of the llvm dialect: `symbol` and, where it
// has one, `symbol`_finish. Buffers are the fusion's operands, then its results, then the partials
// if any. Fails with a diagnostic at the fusion's location.
mlir::FailureOr<KernelInfo> buildKernel(ir::FusionOp fusion, llvm::StringRef symbol,
                                        mlir::ModuleOp into, const TargetInfo &target,
                                        const CodegenOptions &options = {});

// Compiles a module of llvm dialect functions (one kernel or several) to the bytes of a relocatable
// ELF object. Consumes nothing.
absl::StatusOr<std::string> emitObject(mlir::ModuleOp module, const TargetInfo &target,
                                       const CodegenOptions &options = {});

} // namespace weft::compiler
