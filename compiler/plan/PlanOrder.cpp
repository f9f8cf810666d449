// plan-order: tries several orders of the instructions and keeps the one that needs the smallest
// arena.
#include "compiler/plan/Extract.h"
#include "compiler/plan/InPlace.h"
#include "compiler/plan/LendOutputs.h"
#include "compiler/plan/Order.h"
#include "compiler/plan/Passes.h"
#include "mlir/IR/BuiltinOps.h"

namespace weft::compiler {
namespace {

struct PlanOrder : mlir::PassWrapper<PlanOrder, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlanOrder)
  PlanOrder(PlanReport *report = nullptr, bool inPlace = true)
      : report_(report), inPlace_(inPlace) {}
  llvm::StringRef getArgument() const override {
    return "plan-order";
  }
  llvm::StringRef getDescription() const override {
    return "Orders instructions so that the arena is smallest";
  }

  void runOnOperation() override {
    plan::ProgramOp program = findProgram(getOperation());
    if (!program)
      return;
    ExtractedProblem extracted = extractProblem(program, inPlace_);
    std::vector<StepOrder> orders = candidateOrders(extracted.problem);
    size_t best = choose(extracted.problem, orders);
    if (waits(extracted.problem, orders[best])) {
      // An output that cannot become a kept input, because of a check to come, takes memory of its
      // own.
      for (size_t i = 0, n = orders.size(); i < n; ++i)
        orders.push_back(checksFirst(extracted.problem, orders[i]));
      best = choose(extracted.problem, orders);
    }
    apply(program, extracted, orders[best]);
    if (report_)
      report_->order = orders[best].name;
  }

private:
  // The one that takes the fewest bytes.
  static size_t choose(const PlanProblem &problem, const std::vector<StepOrder> &orders) {
    size_t best = 0;
    int64_t fewest = -1;
    for (size_t i = 0; i < orders.size(); ++i) {
      int64_t bytes = plannedBytes(problem, orders[i]);
      // Program order comes first and wins ties: it keeps values warm in the cache as their author
      // wrote them.
      if (fewest >= 0 && bytes >= fewest)
        continue;
      best = i;
      fewest = bytes;
    }
    return best;
  }

  // Whether inputs that are kept give less memory away in this order than they would if nothing
  // were checked.
  static bool waits(const PlanProblem &problem, const StepOrder &order) {
    if (llvm::none_of(problem.values, [](const PlanProblem::Value &value) { return value.kept; }) ||
        lastCheck(problem, order) < 0)
      return false;
    PlanProblem unchecked = problem;
    for (PlanProblem::Value &value : unchecked.values)
      value.kept = false;
    InPlaceResult ours = assignInPlace(problem, order), theirs = assignInPlace(unchecked, order);
    return ours.donations + ours.reuses < theirs.donations + theirs.reuses;
  }

  // Allocs and outputs go to the front, where no order can come before them; they take no time.
  static void apply(plan::ProgramOp program, const ExtractedProblem &extracted,
                    const StepOrder &order) {
    mlir::Block &block = program.getBody().front();
    mlir::Operation *exit = block.getTerminator();
    for (int32_t step : order.steps)
      extracted.instructions[step]->moveBefore(exit);
  }

  PlanReport *report_;
  bool inPlace_;
};

} // namespace

std::unique_ptr<mlir::Pass> createPlanOrderPass(PlanReport *report, bool inPlace) {
  return std::make_unique<PlanOrder>(report, inPlace);
}

} // namespace weft::compiler
