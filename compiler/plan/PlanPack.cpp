// plan-pack: one arena, and an offset in it, or in an output that is written later, for every
// alloc.
#include "compiler/plan/Extract.h"
#include "compiler/plan/LendOutputs.h"
#include "compiler/plan/Lifetimes.h"
#include "compiler/plan/LiveBytes.h"
#include "compiler/plan/Order.h"
#include "compiler/plan/Passes.h"
#include "compiler/plan/PeakParts.h"
#include "compiler/plan/PlannerHooks.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseSet.h"

namespace weft::compiler {

using namespace mlir;

namespace {

struct PlanPack : PassWrapper<PlanPack, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlanPack)
  explicit PlanPack(PlanReport *report = nullptr, PlanMemoryOptions options = {})
      : report_(report), lending_(limitsOf(options)) {}
  StringRef getArgument() const override {
    return "plan-pack";
  }
  StringRef getDescription() const override {
    return "Places all allocs in one arena";
  }

  void runOnOperation() override {
    plan::ProgramOp program = findProgram(getOperation());
    if (!program)
      return;
    ExtractedProblem extracted = extractProblem(program, /*inPlace=*/false);
    StepOrder order = programOrder(extracted.problem);
    std::vector<Lifetime> lives = lifetimes(extracted.problem, order);
    std::optional<RegisteredPlanner> planner = registeredPlanner();
    absl::Status wrong;
    auto packOutside = [&](ArrayRef<Lifetime> values) {
      absl::StatusOr<Packing> packing = packBy(*planner, values);
      wrong = packing.status();
      return packing.ok() ? *std::move(packing) : pack(values);
    };
    Packing packing =
        planner ? packWithOutputs(extracted.problem, order, lives, lending_, true, packOutside)
                : packWithOutputs(extracted.problem, order, lives, lending_);
    if (!wrong.ok()) {
      program.emitOpError() << std::string(wrong.message());
      return signalPassFailure();
    }
    if (report_) {
      report_->peakParts = peakParts(extracted, order, lives, packing);
      report_->liveBytes = liveBytes(extracted.problem, order, lives, packing);
    }

    Block &block = program.getBody().front();
    if (!lives.empty()) {
      // What others lie in goes to the front, where it precedes every use.
      OpBuilder builder(&getContext());
      builder.setInsertionPointToStart(&block);
      llvm::SmallDenseSet<int32_t> moved;
      for (int32_t lender : packing.lenders)
        if (lender >= 0 && moved.insert(lender).second) {
          Operation *output = extracted.buffers[lender].getDefiningOp();
          output->moveBefore(&block, builder.getInsertionPoint());
          builder.setInsertionPointAfter(output);
        }
      auto arena = plan::ArenaOp::create(builder, program.getLoc(),
                                         plan::BufferType::get(&getContext(), packing.arenaBytes));
      for (auto [i, life] : llvm::enumerate(lives)) {
        Value buffer = extracted.buffers[life.value];
        int32_t lender = packing.lenders.empty() ? -1 : packing.lenders[i];
        Value root = lender < 0 ? Value(arena) : extracted.buffers[lender];
        auto view = plan::ViewOp::create(builder, buffer.getLoc(), buffer.getType(), root,
                                         packing.offsets[i]);
        buffer.replaceAllUsesWith(view);
      }
      for (const Lifetime &life : lives)
        extracted.buffers[life.value].getDefiningOp()->erase();
    }
    flattenViews(block);
    if (report_)
      report(extracted, packing);
  }

private:
  // A view of a view becomes one of its root, but for a part of a value; buffers that nothing
  // touches go.
  static void flattenViews(Block &block) {
    for (auto view : llvm::make_early_inc_range(block.getOps<plan::ViewOp>())) {
      if (view->hasAttr(plan::kPartAttr))
        continue;
      int64_t offset;
      Value root = plan::viewRoot(view, offset);
      view.getSourceMutable().assign(root);
      view.setOffset(offset);
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isa<plan::ViewOp, plan::AllocOp, plan::ConstantOp>(op) && op.use_empty())
        op.erase();
  }

  void report(const ExtractedProblem &extracted, const Packing &packing) {
    report_->packing = packing.name;
    report_->arenaBytes = packing.arenaBytes;
    report_->liveBound = packing.bound;
    if (report_->order.empty())
      report_->order = "program";
    report_->inputBytes = report_->outputBytes = report_->constantBytes = 0;
    for (const PlanProblem::Value &value : extracted.problem.values) {
      if (value.kind == PlanProblem::Kind::Input || value.kind == PlanProblem::Kind::Donated)
        report_->inputBytes += value.bytes;
      if (value.kind == PlanProblem::Kind::Output)
        report_->outputBytes += value.bytes;
      if (value.kind == PlanProblem::Kind::Constant)
        report_->constantBytes += value.bytes;
    }
  }

  PlanReport *report_;
  LendingLimits lending_;
};

} // namespace

std::unique_ptr<Pass> createPlanPackPass(PlanReport *report, PlanMemoryOptions options) {
  return std::make_unique<PlanPack>(report, options);
}

} // namespace weft::compiler
