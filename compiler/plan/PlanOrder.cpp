// plan-order: tries several orders of the instructions and keeps the one that needs the smallest
// arena.
#include "compiler/plan/Extract.h"
#include "compiler/plan/LendOutputs.h"
#include "compiler/plan/Order.h"
#include "compiler/plan/Passes.h"
#include "mlir/IR/BuiltinOps.h"

namespace weft::compiler {

using namespace mlir;

namespace {

struct PlanOrder : PassWrapper<PlanOrder, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlanOrder)
  PlanOrder(PlanReport *report = nullptr, PlanMemoryOptions options = {})
      : report_(report), inPlace_(options.inPlace), lending_(limitsOf(options)) {}
  StringRef getArgument() const override {
    return "plan-order";
  }
  StringRef getDescription() const override {
    return "Orders instructions so that the arena is smallest";
  }

  void runOnOperation() override {
    plan::ProgramOp program = findProgram(getOperation());
    if (!program)
      return;
    ExtractedProblem extracted = extractProblem(program, inPlace_);
    StepOrder order = chooseOrder(extracted.problem, lending_).order;
    apply(program, extracted, order);
    if (report_)
      report_->order = order.name;
  }

private:
  // Instructions go to the end, one behind the other: no order comes before allocs and outputs.
  static void apply(plan::ProgramOp program, const ExtractedProblem &extracted,
                    const StepOrder &order) {
    Block &block = program.getBody().front();
    Operation *exit = block.getTerminator();
    for (int32_t step : order.steps)
      extracted.instructions[step]->moveBefore(exit);
  }

  PlanReport *report_;
  bool inPlace_;
  LendingLimits lending_;
};

} // namespace

std::unique_ptr<Pass> createPlanOrderPass(PlanReport *report, PlanMemoryOptions options) {
  return std::make_unique<PlanOrder>(report, options);
}

} // namespace weft::compiler
