// plan-launches: what launches need beside their operands, by what codegen said of their kernels.
#include "compiler/plan/Extract.h"
#include "compiler/plan/Limits.h"
#include "compiler/plan/Passes.h"
#include "mlir/IR/BuiltinOps.h"

namespace weft::compiler {

using namespace mlir;

namespace {

bool isSmall(plan::KernelOp kernel) {
  double bytes = kernel.getBytes() ? kernel.getBytes()->convertToDouble() : 0;
  double flops = kernel.getFlops() ? kernel.getFlops()->convertToDouble() : 0;
  return bytes / kBytesPerMicrosecond < kSerialMicroseconds &&
         flops / kFlopsPerMicrosecond < kSerialMicroseconds;
}

struct PlanLaunches : PassWrapper<PlanLaunches, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlanLaunches)
  StringRef getArgument() const override {
    return "plan-launches";
  }
  StringRef getDescription() const override {
    return "Gives launches their buffers of partial results; keeps small ones on one thread";
  }

  void runOnOperation() override {
    plan::ProgramOp program = findProgram(getOperation());
    if (!program)
      return;
    SymbolTable kernels(getOperation());
    program.walk([&](plan::LaunchOp launch) {
      auto kernel = kernels.lookup<plan::KernelOp>(launch.getKernel());
      if (!kernel)
        return;
      if (kernel.getPartials() > 0 && !launch.getPartials())
        launch.getPartialsMutable().assign(plan::bufferFor(launch, int64_t(kernel.getPartials())));
      if (int64_t(kernel.getCount()) <= int64_t(kernel.getGrain()) || isSmall(kernel))
        launch.setSerial(true);
    });
  }
};

} // namespace

std::unique_ptr<Pass> createPlanLaunchesPass() {
  return std::make_unique<PlanLaunches>();
}

} // namespace weft::compiler
