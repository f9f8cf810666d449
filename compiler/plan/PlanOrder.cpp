// plan-order: tries several orders of the instructions and keeps the one that needs the smallest arena.
#include "compiler/plan/Extract.h"
#include "compiler/plan/InPlace.h"
#include "compiler/plan/Lifetimes.h"
#include "compiler/plan/Order.h"
#include "compiler/plan/Packing.h"
#include "compiler/plan/Passes.h"
#include "mlir/IR/BuiltinOps.h"

namespace weft::compiler {
namespace {

struct PlanOrder : mlir::PassWrapper<PlanOrder, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlanOrder)
  PlanOrder(PlanReport *report = nullptr, bool inPlace = true) : report_(report), inPlace_(inPlace) {}
  llvm::StringRef getArgument() const override { return "plan-order"; }
  llvm::StringRef getDescription() const override { return "Orders instructions so that the arena is smallest"; }

  void runOnOperation() override {
    plan::ProgramOp program = findProgram(getOperation());
    if (!program) return;
    ExtractedProblem extracted = extractProblem(program, inPlace_);
    StepOrder best;
    int64_t bestArena = -1, bestBound = -1;
    for (StepOrder &order : candidates(extracted.problem)) {
      std::vector<Lifetime> lives = lifetimes(applyInPlace(extracted.problem, assignInPlace(extracted.problem, order)), order);
      int64_t bound = liveBound(lives), arena = pack(lives).arenaBytes;
      if (bestBound < 0 || bound < bestBound) bestBound = bound;
      // Program order comes first and wins ties: it keeps values warm in the cache as their author wrote them.
      if (bestArena >= 0 && arena >= bestArena) continue;
      best = std::move(order);
      bestArena = arena;
    }
    apply(program, extracted, best);
    if (!report_) return;
    report_->order = best.name;
    report_->bestLiveBound = bestBound;
  }

private:
  static std::vector<StepOrder> candidates(const PlanProblem &problem) {
    return {programOrder(problem), depthFirstOrder(problem), greedyOrder(problem)};
  }

  // Allocs and outputs go to the front, where no order can come before them; they take no time.
  static void apply(plan::ProgramOp program, const ExtractedProblem &extracted, const StepOrder &order) {
    mlir::Block &block = program.getBody().front();
    mlir::Operation *exit = block.getTerminator();
    for (int32_t step : order.steps) extracted.instructions[step]->moveBefore(exit);
  }

  PlanReport *report_;
  bool inPlace_;
};

} // namespace

std::unique_ptr<mlir::Pass> createPlanOrderPass(PlanReport *report, bool inPlace) { return std::make_unique<PlanOrder>(report, inPlace); }

} // namespace weft::compiler
