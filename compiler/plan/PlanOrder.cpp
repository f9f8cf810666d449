// plan-order: tries several orders of the instructions and keeps the one that needs the smallest
// arena.
#include "compiler/plan/Extract.h"
#include "compiler/plan/InPlace.h"
#include "compiler/plan/Lifetimes.h"
#include "compiler/plan/Order.h"
#include "compiler/plan/Packing.h"
#include "compiler/plan/Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/core/alignment.h"

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
    std::vector<StepOrder> orders = candidates(extracted.problem);
    Choice best = choose(extracted.problem, orders, /*outputs=*/false);
    if (waits(extracted.problem, orders[best.order])) {
      // An output that cannot become a kept input, because of a check to come, takes memory of its
      // own.
      for (size_t i = 0, n = orders.size(); i < n; ++i)
        orders.push_back(checksFirst(extracted.problem, orders[i]));
      best = choose(extracted.problem, orders, /*outputs=*/true);
    }
    apply(program, extracted, orders[best.order]);
    if (!report_)
      return;
    report_->order = orders[best.order].name;
    report_->bestLiveBound = best.bound;
  }

private:
  struct Choice {
    size_t order = 0;
    int64_t bytes = -1; // that are smallest in this order
    int64_t bound = -1; // the best of all orders
  };

  // outputs: whether the outputs that take no input's memory count, beside the arena.
  static Choice choose(const PlanProblem &problem, const std::vector<StepOrder> &orders,
                       bool outputs) {
    Choice best;
    for (size_t i = 0; i < orders.size(); ++i) {
      InPlaceResult inPlace = assignInPlace(problem, orders[i]);
      std::vector<Lifetime> lives = lifetimes(applyInPlace(problem, inPlace), orders[i]);
      int64_t bound = liveBound(lives), bytes = pack(lives).arenaBytes;
      if (best.bound < 0 || bound < best.bound)
        best.bound = bound;
      for (size_t v = 0; outputs && v < problem.values.size(); ++v)
        if (problem.values[v].kind == PlanProblem::Kind::Output && inPlace.root[v] == int32_t(v))
          bytes += runtime::align(problem.values[v].bytes);
      // Program order comes first and wins ties: it keeps values warm in the cache as their author
      // wrote them.
      if (best.bytes >= 0 && bytes >= best.bytes)
        continue;
      best.order = i;
      best.bytes = bytes;
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

  static std::vector<StepOrder> candidates(const PlanProblem &problem) {
    return {programOrder(problem), depthFirstOrder(problem), greedyOrder(problem)};
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
