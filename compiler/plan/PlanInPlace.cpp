// plan-in-place: what takes over another value's buffer becomes a view of it. Each value keeps a
// name of its own, so that plan-verify can tell them apart.
#include "compiler/plan/Extract.h"
#include "compiler/plan/InPlace.h"
#include "compiler/plan/Order.h"
#include "compiler/plan/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace weft::compiler {

using namespace mlir;

namespace {

struct PlanInPlace : PassWrapper<PlanInPlace, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlanInPlace)
  explicit PlanInPlace(PlanReport *report = nullptr) : report_(report) {}
  StringRef getArgument() const override {
    return "plan-in-place";
  }
  StringRef getDescription() const override {
    return "Lets results take over the buffers of dead operands and donated inputs";
  }

  void runOnOperation() override {
    plan::ProgramOp program = findProgram(getOperation());
    if (!program)
      return;
    ExtractedProblem extracted = extractProblem(program, /*inPlace=*/true);
    InPlaceResult result = assignInPlace(extracted.problem, programOrder(extracted.problem));
    // Roots go to the front, where they precede every use, then the views of them.
    Block &block = program.getBody().front();
    OpBuilder builder = OpBuilder::atBlockBegin(&block);
    for (size_t v = 0; v < result.root.size(); ++v) {
      Operation *op = extracted.buffers[v].getDefiningOp();
      if (result.root[v] != int32_t(v) || !isa_and_nonnull<plan::AllocOp, plan::OutputOp>(op))
        continue;
      op->moveBefore(&block, builder.getInsertionPoint());
      builder.setInsertionPointAfter(op);
    }
    for (size_t v = 0; v < result.root.size(); ++v) {
      if (result.root[v] == int32_t(v))
        continue;
      Value buffer = extracted.buffers[v];
      auto view = plan::ViewOp::create(builder, buffer.getLoc(), buffer.getType(),
                                       extracted.buffers[result.root[v]], 0);
      buffer.replaceAllUsesWith(view);
    }
    for (size_t v = 0; v < result.root.size(); ++v)
      if (result.root[v] != int32_t(v))
        extracted.buffers[v].getDefiningOp()->erase();
    if (!report_)
      return;
    report_->inPlaceReuses = result.reuses;
    report_->donationsUsed = result.donations;
  }

private:
  PlanReport *report_;
};

} // namespace

std::unique_ptr<Pass> createPlanInPlacePass(PlanReport *report) {
  return std::make_unique<PlanInPlace>(report);
}

} // namespace weft::compiler
