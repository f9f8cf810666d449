// plan-recompute: where a program would take more than its memory limit, values are given up and
// computed again, or stored in files and loaded, whichever costs less; without a limit those whose
// recomputation costs little are computed again. What runs again is the same kernel on the same
// values, and a file has the same bytes: bits do not change.
#include "compiler/claim/Provider.h"
#include "compiler/plan/Extract.h"
#include "compiler/plan/InPlace.h"
#include "compiler/plan/LendOutputs.h"
#include "compiler/plan/Limits.h"
#include "compiler/plan/Order.h"
#include "compiler/plan/Passes.h"
#include "compiler/plan/Recompute.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include <limits>

namespace weft::compiler {

using namespace mlir;

namespace {

struct PlanRecompute : PassWrapper<PlanRecompute, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlanRecompute)
  PlanRecompute(PlanReport *report, PlanMemoryOptions options)
      : report_(report), options_(options) {
    limit = options.memoryLimit;
    files = options.files;
  }
  PlanRecompute(const PlanRecompute &other)
      : PassWrapper(other), report_(other.report_), options_(other.options_) {}
  StringRef getArgument() const override {
    return "plan-recompute";
  }
  StringRef getDescription() const override {
    return "Computes values again that would not fit the memory limit, or cost next to nothing, or "
           "keeps them in files";
  }

  void runOnOperation() override {
    plan::ProgramOp program = findProgram(getOperation());
    if (!program)
      return;
    ExtractedProblem extracted = extractProblem(program, options_.inPlace);
    if (limit <= 0 && arenaValues(extracted.problem) < kLeastFreeRecompute)
      return;
    // A file's room has one size: there are none where a size varies.
    extracted.problem.files =
        files && limit > 0 &&
        llvm::none_of(extracted.problem.values, [](const auto &value) { return value.extent > 0; });
    lending_ = limitsOf(options_);
    int64_t before = chooseOrder(extracted.problem, lending_).bytes;
    if (before <= (limit > 0 ? int64_t(limit) : kLeastFreeRecompute))
      return;
    Plan best =
        limit > 0 ? within(extracted.problem, limit, before) : freely(extracted.problem);
    if (best.bytes > limit && double(best.bytes) > double(before) * (1 - kLeastSaving))
      return;
    apply(program, extracted, best.found.actions);
    if (!report_)
      return;
    double cost = 0;
    for (const PlanProblem::Step &step : extracted.problem.steps)
      cost += step.cost;
    int64_t loads = 0;
    for (PlanAction action : best.found.actions) {
      loads += action.kind == PlanAction::Kind::Load;
      if (action.kind == PlanAction::Kind::Store) {
        ++report_->storedValues;
        report_->storedBytes += extracted.problem.values[action.index].bytes;
      }
    }
    report_->recomputations =
        int64_t(best.found.actions.size() - extracted.problem.steps.size()) - loads -
        report_->storedValues;
    report_->recomputedShare = cost > 0 ? best.found.cost / cost : 0;
  }

  Option<int64_t> limit{*this, "limit",
                        llvm::cl::desc("bytes beside inputs; 0: what costs little"),
                        llvm::cl::init(0)};
  Option<bool> files{*this, "files", llvm::cl::desc("values may wait in files, under a limit"),
                     llvm::cl::init(false)};

private:
  struct Plan {
    Recomputation found;
    int64_t bytes = std::numeric_limits<int64_t>::max();
  };
  Plan planned(const PlanProblem &problem, Recomputation found) const {
    PlanProblem repeated = repeatSteps(problem, found.actions).problem;
    int64_t bytes = plannedBytes(repeated, programOrder(repeated), lending_);
    return {std::move(found), bytes};
  }

  // Of what costs little in each order, what has the least live at once: packed, that takes little
  // more. Of what costs next to nothing first, which the rest must save much of.
  Plan freely(const PlanProblem &problem) const {
    std::vector<StepOrder> orders = triedOrders(problem);
    std::vector<std::vector<int32_t>> buffers;
    Recomputation free;
    for (const StepOrder &order : orders) {
      buffers.push_back(assignInPlace(problem, order).root);
      Recomputation found = recomputeFreely(problem, order, buffers.back());
      if (free.actions.empty() || found.peakBytes < free.peakBytes)
        free = std::move(found);
    }
    Recomputation best = free;
    for (auto [order, buffer] : llvm::zip(orders, buffers)) {
      Recomputation found = recomputeFurther(problem, order, buffer, free);
      if (found.peakBytes < best.peakBytes)
        best = std::move(found);
    }
    return planned(problem, std::move(best));
  }

  // The cheapest that fits, else the cheapest of those that take the fewest bytes. Budgets fall
  // until one fits.
  //
  // Where none does, a budget that is out of reach gives up much that does not lower the peak. So
  // what is found without a limit is tried, too, than which a limit then takes no more; and the
  // least budget that fits is looked for between the limit and `whole`, what the program takes with
  // nothing given up, so that a smaller limit takes no more than a larger one by much.
  Plan within(const PlanProblem &problem, int64_t bytes, int64_t whole) const {
    Plan best;                // that fits
    std::vector<Plan> missed; // all others
    std::vector<StepOrder> orders = triedOrders(problem);
    for (int walk = 0; walk < kRecomputeWalks && best.bytes > bytes; ++walk) {
      auto budget = int64_t(double(bytes) * (1 - kRecomputeStep * walk));
      for (const StepOrder &order : orders) {
        Recomputation found = recompute(problem, order, assignInPlace(problem, order).root, budget);
        if (best.bytes <= bytes && (found.cost >= best.found.cost || found.peakBytes > bytes))
          continue;
        Plan plan = planned(problem, std::move(found));
        if (plan.bytes <= bytes)
          best = std::move(plan);
        else
          missed.push_back(std::move(plan));
      }
    }
    if (best.bytes <= bytes)
      return best;
    if (arenaValues(problem) >= kLeastFreeRecompute)
      missed.push_back(freely(problem));
    int64_t low = bytes, high = whole;
    for (int walk = 0; walk < kLeastBudgetWalks; ++walk) {
      int64_t budget = low + (high - low) / 2, peak = whole;
      for (const StepOrder &order : orders) {
        Recomputation found = recompute(problem, order, assignInPlace(problem, order).root, budget);
        peak = std::min(peak, found.peakBytes);
        missed.push_back(planned(problem, std::move(found)));
      }
      (peak <= budget ? high : low) = budget;
    }
    return cheapest(std::move(missed), bytes);
  }

  // Of those that fit, else of those that take the fewest bytes, or kSameBytes more.
  static Plan cheapest(std::vector<Plan> plans, int64_t bytes) {
    int64_t fewest = std::numeric_limits<int64_t>::max();
    for (const Plan &plan : plans)
      fewest = std::min(fewest, plan.bytes);
    int64_t most = fewest <= bytes ? bytes : int64_t(double(fewest) * (1 + kSameBytes));
    Plan *best = nullptr;
    for (Plan &plan : plans)
      if (plan.bytes <= most && (!best || plan.found.cost < best->found.cost))
        best = &plan;
    return std::move(*best);
  }

  static int64_t arenaValues(const PlanProblem &problem) {
    int64_t bytes = 0;
    for (const PlanProblem::Value &value : problem.values)
      bytes += value.kind == PlanProblem::Kind::Arena ? value.bytes : 0;
    return bytes;
  }

  // A call of the runtime's files on a buffer's bytes (compiler/claim/Provider.h).
  static void callFile(OpBuilder &builder, Location loc, StringRef callee, Value from, Value to) {
    SmallVector<Attribute> types;
    for (Value buffer : {from, to})
      types.push_back(
          TypeAttr::get(RankedTensorType::get({plan::bytesOf(buffer)}, builder.getI8Type())));
    plan::LibraryCallOp::create(builder, loc, builder.getStringAttr(callee), from, to,
                                /*scratch=*/Value(), builder.getArrayAttr(types),
                                builder.getDictionaryAttr({}));
  }

  // The instructions in the order of the actions. One that runs again is a copy with buffers of its
  // own, which all that follows reads.
  static void apply(plan::ProgramOp program, const ExtractedProblem &extracted,
                    ArrayRef<PlanAction> actions) {
    Block &block = program.getBody().front();
    Operation *exit = block.getTerminator();
    std::vector<bool> ran(extracted.instructions.size());
    std::vector<SmallVector<Value>> operands; // of each instruction, as they were
    for (Operation *op : extracted.instructions)
      operands.emplace_back(op->getOperands());
    DenseMap<Value, Value> current; // of a buffer that was written again
    // By a view of the first buffer and the current one.
    DenseMap<std::pair<Value, Value>, Value> views;
    // The part of the current buffer that `operand` is of the first one.
    auto remap = [&](Value operand) {
      int64_t offset;
      Value root = current.lookup(plan::viewRoot(operand, offset));
      SmallVector<plan::ViewOp> chain;
      for (Value at = operand; root && at.getDefiningOp<plan::ViewOp>();
           at = chain.back().getSource())
        chain.push_back(at.getDefiningOp<plan::ViewOp>());
      for (plan::ViewOp view : llvm::reverse(chain)) {
        Value &known = views[{view, root}];
        if (!known) {
          OpBuilder builder(exit);
          Operation *copy = builder.clone(*view);
          copy->setOperand(0, root);
          known = copy->getResult(0);
        }
        root = known;
      }
      return root ? root : operand;
    };
    DenseMap<int32_t, Value> tokens; // of values in files
    std::vector<Operation *> writer(extracted.problem.values.size());
    for (auto [step, op] : llvm::zip(extracted.problem.steps, extracted.instructions))
      for (int32_t v : step.writes)
        writer[v] = op;
    for (PlanAction action : actions) {
      OpBuilder builder(exit);
      if (action.kind != PlanAction::Kind::Step) {
        Value first = extracted.buffers[action.index];
        Location loc = writer[action.index]->getLoc();
        if (action.kind == PlanAction::Kind::Store) {
          Value &token = tokens[action.index];
          token = plan::AllocOp::create(builder, loc,
                                        plan::BufferType::get(builder.getContext(), kTokenBytes));
          callFile(builder, loc, kStoreEntry, remap(first), token);
        } else {
          Value again = plan::AllocOp::create(builder, loc, first.getType());
          callFile(builder, loc, kLoadEntry, tokens.at(action.index), again);
          current[first] = again;
        }
        continue;
      }
      int32_t s = action.index;
      Operation *op = extracted.instructions[s];
      // Of what it writes when it runs again. What it writes first has no current buffer yet.
      llvm::SmallDenseMap<Value, Value, 2> renewed;
      if (ran[s]) {
        MutableOperandRange writes = cast<plan::InstructionOp>(op).getWritesMutable();
        for (OpOperand &operand : writes)
          renewed[operand.get()] = plan::AllocOp::create(
              builder, operand.get().getLoc(), cast<plan::BufferType>(operand.get().getType()));
      }
      SmallVector<Value> now;
      for (Value first : operands[s]) {
        Value written = renewed.lookup(first);
        now.push_back(written ? written : remap(first));
      }
      (ran[s] ? builder.clone(*op) : op)->setOperands(now);
      if (!ran[s])
        op->moveBefore(exit);
      ran[s] = true;
      for (auto [first, again] : renewed)
        if (!first.getDefiningOp<plan::OutputOp>()) // stays where it is: nobody needs its copy
          current[first] = again;
    }
  }

  PlanReport *report_;
  PlanMemoryOptions options_;
  LendingLimits lending_;
};

} // namespace

std::unique_ptr<Pass> createPlanRecomputePass(PlanReport *report, PlanMemoryOptions options) {
  return std::make_unique<PlanRecompute>(report, options);
}

} // namespace weft::compiler
