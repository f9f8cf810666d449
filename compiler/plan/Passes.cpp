#include "compiler/plan/Passes.h"

#include "compiler/plan/LendOutputs.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

namespace weft::compiler {

LendingLimits limitsOf(const PlanMemoryOptions &options) {
  return options.lendOutputs ? LendingLimits() : LendingLimits::none();
}

void addPlanMemoryPasses(mlir::OpPassManager &passes, PlanReport *report,
                         PlanMemoryOptions options) {
  passes.addPass(createPlanLaunchesPass());
  passes.addPass(createPlanRecomputePass(report, options));
  passes.addPass(createPlanOrderPass(report, options));
  if (options.inPlace)
    passes.addPass(createPlanInPlacePass(report));
  passes.addPass(createPlanPackPass(report, options));
  passes.addPass(createPlanVerifyPass());
}

void registerPlanPasses() {
  mlir::registerPass([] { return createWeftToPlanPass(); });
  mlir::registerPass([] { return createPlanLaunchesPass(); });
  mlir::registerPass([] { return createPlanRecomputePass(); });
  mlir::registerPass([] { return createPlanOrderPass(); });
  mlir::registerPass([] { return createPlanInPlacePass(); });
  mlir::registerPass([] { return createPlanPackPass(); });
  mlir::registerPass([] { return createPlanVerifyPass(); });
}

} // namespace weft::compiler
