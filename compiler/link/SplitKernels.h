// What becomes of kernels that cannot be compiled: several smaller ones.
//
// Fusing decides which ops share a kernel before anything is compiled. Where code generation says
// no to what fusing accepted, the program must still run: the ops of a kernel give the same bits
// however they are grouped, so that its halves, or theirs, do the same work.
#pragma once

#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "compiler/pipeline/Report.h"
#include "dialects/plan/ir/Plan.h"
#include "mlir/IR/BuiltinOps.h"

namespace weft::compiler {

// A kernel of a module that holds a plan.program as weft-to-plan leaves it, and why it was refused.
struct RefusedKernel {
  plan::KernelOp kernel;
  absl::Status why;
};

class KernelSplitter {
public:
  explicit KernelSplitter(mlir::ModuleOp module);

  // Replaces each kernel by two, which have half of its ops each, and its launches by theirs;
  // `kernels` gets those that are to be compiled. An error, with nothing changed, where one of them
  // is a single op: it names the op and its line. Linear in the ops and launches of the module, and
  // called at most once for each halving of the largest kernel.
  absl::Status split(llvm::ArrayRef<RefusedKernel> refused,
                     llvm::SmallVectorImpl<plan::KernelOp> &kernels);
  // What was split, and why: for the report.
  const RefusalCollector &refusals() const {
    return refusals_;
  }

private:
  using Known = std::unordered_map<std::string, plan::KernelOp>;
  void replace(plan::KernelOp kernel, llvm::ArrayRef<plan::LaunchOp> launches, Known &known,
               llvm::SmallVectorImpl<plan::KernelOp> &kernels);

  mlir::ModuleOp module_;
  RefusalCollector refusals_{"codegen"};
  size_t numbers_;     // of kernels, so far
  bool again_ = false; // whether parts are what is split
};

} // namespace weft::compiler
