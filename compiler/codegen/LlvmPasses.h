// From the llvm dialect to text or bytes of a machine: what code generation for every target
// shares. Includes LLVM; for .cpp files only.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/codegen/Codegen.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Target/TargetMachine.h"

namespace weft::compiler {

// The module as LLVM IR for the machine. Internal when it cannot be translated.
absl::StatusOr<std::unique_ptr<llvm::Module>> translateToLlvm(mlir::ModuleOp module,
                                                              llvm::LLVMContext &context,
                                                              llvm::TargetMachine &machine,
                                                              const CodegenOptions &options);

// A target of this LLVM, with multiplications and additions that stay two roundings: results must
// not depend on what was fused. Internal when there is none. The target must have been initialised.
absl::StatusOr<std::unique_ptr<llvm::TargetMachine>>
makeMachine(llvm::StringRef triple, llvm::StringRef cpu, llvm::StringRef features,
            std::optional<llvm::Reloc::Model> relocation);

// What kernels need of LLVM's optimiser, and the dump "ll" of what it gives.
absl::Status optimize(llvm::Module &ir, llvm::TargetMachine &machine,
                      const CodegenOptions &options);

// Instruction selection; consumes the module.
absl::StatusOr<std::string> emitCode(llvm::Module &ir, llvm::TargetMachine &machine,
                                     llvm::CodeGenFileType type);

} // namespace weft::compiler
