// From a slice to a runtime program: all phases up to plan, with a backend's providers and its way
// to make kernels.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "compiler/backend/CompileOptions.h"
#include "compiler/backend/CompileReport.h"
#include "compiler/codegen/Kernel.h"
#include "dialects/plan/ir/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/executable/program.h"
#include "runtime/executable/size_table.h"

namespace weft::compiler {

class Pipeline;
class ProviderSet;

// What codegen says of each of some kernels, in their order, or why it cannot make it; an error
// where the program cannot be whatever its kernels are.
using MadeKernels = absl::StatusOr<std::vector<absl::StatusOr<KernelInfo>>>;

// Makes kernels of a program. dumpFolder is empty for no dumps. Called for all of them, and again
// for the parts of those that it could not make; then the same for what prepares the program. Names
// of kernels differ within either.
using MakeKernels =
    std::function<MadeKernels(llvm::ArrayRef<plan::KernelOp> kernels, llvm::StringRef dumpFolder)>;

// What a library call works in while it runs, in bytes. The operands name no buffers. Only the
// library itself knows, of the machine and the number of threads that run the program.
using ScratchBytes = std::function<absl::StatusOr<int64_t>(const runtime::LibraryCall &call)>;

// Pins choices of a module's fusions before kernels are made of them, and says what it did.
using ChooseSchedules =
    std::function<void(mlir::ModuleOp module, std::vector<std::string> &remarks)>;

struct CompileRequest {
  const ProviderSet *providers = nullptr; // null: nothing is claimed
  std::string target;                     // what the program says it needs
  MakeKernels makeKernels;
  ScratchBytes scratchBytes; // null where nobody knows yet: calls bring their scratch to the run
  ChooseSchedules chooseSchedules; // null: the compiler's costs choose
  int64_t operandAlignment = 1;    // KernelMaker::operandAlignment
};

// Makes the phase plan of a pipeline lower, have kernels made, and plan memory. What it fills must
// outlive the pipeline's run; null: not wanted.
struct PlanPhaseResult {
  PlanReport *report = nullptr;
  CompileReport *refusals = nullptr; // gets the reasons of kernels that were split
  absl::Status *failure = nullptr;   // of a kernel or a library, as it said it
  double *kernelMilliseconds = nullptr;
};
void setPlanPhase(Pipeline &pipeline, const CompileOptions &options, const CompileRequest &request,
                  PlanPhaseResult result);

// Runs the phases import to plan on `module`, which then holds a plan.program and its kernels. What
// is computed ahead of runs becomes `prepare`, a module of the same kind, or stays null; its
// kernels are asked for after the module's own. report is filled; it may be null.
absl::Status compileToPlan(mlir::ModuleOp module, const CompileOptions &options,
                           const CompileRequest &request, CompileReport *report,
                           mlir::OwningOpRef<mlir::ModuleOp> &prepare);

// The runtime's program of the two modules that compileToPlan leaves; `prepare` may be null. A
// module with named dims needs a size table, which is filled; the program is that of the largest
// sizes.
absl::StatusOr<runtime::Program> linkProgram(mlir::ModuleOp module, mlir::ModuleOp prepare,
                                             llvm::StringRef target, const PlanReport &report,
                                             runtime::SizeTable *sizes = nullptr);

// Both.
absl::StatusOr<runtime::Program> compileToProgram(mlir::ModuleOp module,
                                                  const CompileOptions &options,
                                                  const CompileRequest &request,
                                                  CompileReport *report,
                                                  runtime::SizeTable *sizes = nullptr);

} // namespace weft::compiler
