// One entry of a model that is compiled ahead of time: from its module to the runtime's program.
// Private to this folder.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/Codegen.h"
#include "compiler/link/Aot.h"
#include "compiler/link/ModelCode.h"
#include "compiler/link/SizeRange.h"
#include "dialects/weft/reference/HostTensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace weft::compiler {

class AotEntry {
public:
  // An argument of @main that the model holds between runs.
  struct Held {
    unsigned argument = 0;
    std::string name;
    DType dtype = DType::kFloat32;
    std::vector<int64_t> dims;
    bool isState = false;   // this entry or another one writes it
    bool isWritten = false; // this one does
    std::optional<ir::HostTensor> initial;
  };

  // The module is consumed.
  AotEntry(std::string name, mlir::ModuleOp module)
      : name_(std::move(name)), module_(module),
        main_(module.lookupSymbol<mlir::func::FuncOp>("main")) {}

  // The same for another processor, with a copy of the module. After mark(), before it is compiled.
  std::unique_ptr<AotEntry> copy() const;

  const std::string &name() const {
    return name_;
  }
  // Takes what the model holds from the attributes of @main, and leaves none; captured tensors
  // become arguments of it, called behind `prefix` where they have no name (CapturedTensors.h).
  // InvalidArgument where there is no @main, or a result writes what it cannot.
  absl::Status read(llvm::StringRef prefix);
  // What only reads state knows so by the other entries: `isState` may be set before mark().
  std::vector<Held> &held() {
    return held_;
  }
  mlir::func::FuncOp main() const {
    return main_;
  }
  // Tells the phases what may be written in place, and what stays as it is. After read().
  void mark();

  absl::Status compileToFuse(const AotOptions &options);
  // Kernels go into `code`, under names that begin with `prefix`; those of another device stay
  // here. A module with a range of sizes becomes several programs.
  absl::Status compile(const AotOptions &options, const TargetInfo &target, mlir::ModuleOp code,
                       const std::string &prefix, const CodegenOptions &codegen);
  std::string text() const;

  // Adds the names of the entries of libraries that a program, or what prepares it, calls.
  void addCalled(std::set<std::string> &names) const;
  CompileReport &report() {
    return report_;
  }
  // What a run takes beside inputs and weights, in bytes: of the part that takes most. After
  // compile().
  int64_t runBytes() const {
    return runBytes_;
  }

  // What becomes code. value: of the held tensor, where it becomes a constant of the program.
  // number: of the tensor in the model, for all others.
  absl::StatusOr<EntryCode>
  code(const AotOptions &options,
       llvm::function_ref<std::optional<llvm::ArrayRef<char>>(const Held &)> value,
       llvm::function_ref<int32_t(const Held &)> number) const;

private:
  // The module for a part of the range of sizes, or the whole one where it has none.
  struct Part {
    int64_t low = 0, high = 0;
    mlir::OwningOpRef<mlir::ModuleOp> copy; // where there is a range
    mlir::ModuleOp module;
    int32_t sizeInput = -1; // where @main takes the size
    mlir::OwningOpRef<mlir::ModuleOp> prepare;
    runtime::Program program;
    runtime::SizeTable sizes;
  };

  absl::Status makeParts(const AotOptions &options);
  absl::StatusOr<bool> servesAll(int64_t low, int64_t high, const AotOptions &options);
  absl::StatusOr<Part> makePart(int64_t low, int64_t high);
  absl::Status compile(Part &part, const AotOptions &options, const TargetInfo &target,
                       mlir::ModuleOp code, const std::string &prefix,
                       const CodegenOptions &codegen);
  absl::Status at(const Part &part, const absl::Status &status) const;
  absl::StatusOr<KernelInfo> buildKernel(plan::KernelOp kernel, bool prepares,
                                         const AotOptions &options, const TargetInfo &target,
                                         mlir::ModuleOp code, const std::string &prefix,
                                         const CodegenOptions &codegen);

  std::string name_;
  mlir::OwningOpRef<mlir::ModuleOp> copy_; // of a module, where this is a copy
  mlir::ModuleOp module_;
  mlir::func::FuncOp main_;
  std::vector<Held> held_;
  std::vector<std::pair<unsigned, unsigned>> writes_; // result, number in held_
  std::optional<SizeRange> range_;
  std::vector<Part> parts_; // by size
  std::vector<CompiledKernel> deviceKernels_;
  CompileReport report_;
  int64_t runBytes_ = 0;
};

} // namespace weft::compiler
