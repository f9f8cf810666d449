// The passes that make a plan: from a slice of fusions and provider calls to a program with one
// arena.
#pragma once

#include <memory>

#include "compiler/backend/CompileReport.h"
#include "mlir/Pass/Pass.h"

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace weft::compiler {

class ProviderSet;

// What passes that plan memory have in common; CompileOptions says what each means.
struct PlanMemoryOptions {
  bool inPlace = true;
  bool lendOutputs = true;
  int64_t memoryLimit = 0;
  bool files = false;
};
struct LendingLimits;
LendingLimits limitsOf(const PlanMemoryOptions &options);

// func.func @main of weft.fusion, weft.provider_call, weft.reshape and weft.constant ->
// plan.program @main and one plan.kernel for each distinct fusion. On builtin.module.
// operandAlignment: CompileRequest::operandAlignment.
std::unique_ptr<mlir::Pass> createWeftToPlanPass(int64_t operandAlignment = 1);
// Computes large gradients in pieces that update their part of a weight each, where the provider of
// the product can: plan.pieces in place of a call and a launch, and a kernel for pieces. After
// weft-to-plan, before kernels are made. report gets what stays whole, and may be null; without
// providers nothing changes.
std::unique_ptr<mlir::Pass> createPlanPiecesPass(const ProviderSet *providers = nullptr,
                                                 CompileReport *report = nullptr);
// Gives launches the buffer of partial results that their kernel asks for, and marks those too
// small for several threads as serial.
std::unique_ptr<mlir::Pass> createPlanLaunchesPass();
// Repeats instructions instead of keeping what they wrote: where a program would take more than its
// limit, and without a limit where that costs next to nothing. Before plan-order; report may be
// null.
std::unique_ptr<mlir::Pass> createPlanRecomputePass(PlanReport *report = nullptr,
                                                    PlanMemoryOptions options = {});
// Chooses the order of instructions that needs the smallest arena. On builtin.module, as all that
// follow; report may be null.
std::unique_ptr<mlir::Pass> createPlanOrderPass(PlanReport *report = nullptr,
                                                PlanMemoryOptions options = {});
// Lets results take over buffers of dead operands and of donated inputs: they become views of them.
std::unique_ptr<mlir::Pass> createPlanInPlacePass(PlanReport *report = nullptr);
// Replaces every alloc by a view into one arena.
std::unique_ptr<mlir::Pass> createPlanPackPass(PlanReport *report = nullptr,
                                               PlanMemoryOptions options = {});
// Proves, from the IR alone, that every instruction reads what was written for it: no two live
// values share bytes.
std::unique_ptr<mlir::Pass> createPlanVerifyPass();

// weft-to-plan is one step; the rest, which needs what codegen says of the kernels, is another.
void addPlanMemoryPasses(mlir::OpPassManager &passes, PlanReport *report,
                         PlanMemoryOptions options);

void registerPlanPasses();

} // namespace weft::compiler
