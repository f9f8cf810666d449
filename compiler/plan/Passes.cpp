#include "compiler/plan/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

namespace weft::compiler {

void addPlanMemoryPasses(mlir::OpPassManager &passes, PlanReport *report, bool inPlace,
                         int64_t memoryLimit) {
  passes.addPass(createPlanLaunchesPass());
  if (memoryLimit > 0)
    passes.addPass(createPlanRecomputePass(memoryLimit, report));
  passes.addPass(createPlanOrderPass(report, inPlace));
  if (inPlace)
    passes.addPass(createPlanInPlacePass(report));
  passes.addPass(createPlanPackPass(report));
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
