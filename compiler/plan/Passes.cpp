#include "compiler/plan/Passes.h"

#include "compiler/plan/LendOutputs.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

namespace weft::compiler {

using namespace mlir;

LendingLimits limitsOf(const PlanMemoryOptions &options) {
  return options.lendOutputs ? LendingLimits() : LendingLimits::none();
}

void addPlanMemoryPasses(OpPassManager &passes, PlanReport *report, PlanMemoryOptions options) {
  passes.addPass(createPlanLaunchesPass());
  passes.addPass(createPlanRecomputePass(report, options));
  passes.addPass(createPlanOrderPass(report, options));
  if (options.inPlace)
    passes.addPass(createPlanInPlacePass(report));
  passes.addPass(createPlanPackPass(report, options));
  passes.addPass(createPlanVerifyPass());
}

void registerPlanPasses() {
  registerPass([] { return createWeftToPlanPass(); });
  registerPass([] { return createPlanLaunchesPass(); });
  registerPass([] { return createPlanRecomputePass(); });
  registerPass([] { return createPlanOrderPass(); });
  registerPass([] { return createPlanInPlacePass(); });
  registerPass([] { return createPlanPackPass(); });
  registerPass([] { return createPlanVerifyPass(); });
}

} // namespace weft::compiler
