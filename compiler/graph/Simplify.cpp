#include "compiler/graph/Simplify.h"

#include "compiler/graph/Passes.h"
#include "compiler/graph/Slice.h"
#include "llvm/ADT/DenseMap.h"

namespace weft::compiler {

using namespace mlir;

#define GEN_PASS_DEF_SIMPLIFYPASS
#include "compiler/graph/Passes.h.inc"

namespace {

// Each op may be looked at this often on average before the driver stops: rules that undo each
// other must not loop for ever, and what real programs need is below 3.
constexpr int64_t kVisitsPerOp = 16;
// Operands of all ops but concats and those of users.
constexpr unsigned kFewOperands = 8;

// Ops to look at, each at most once at a time. A vector and an index, as in MLIR's greedy driver;
// but the driver here never walks the block again, never hashes constants and never recurses, so
// that it stays linear on chains and on values with many users.
class Worklist : public RewriterBase::Listener {
public:
  ConcatBegins begins;

  void push(Operation *op) {
    auto [it, isNew] = index_.insert({op, ops_.size()});
    if (isNew)
      ops_.push_back(op);
  }
  Operation *pop() {
    while (!ops_.empty()) {
      Operation *op = ops_.pop_back_val();
      if (!op)
        continue;
      index_.erase(op);
      return op;
    }
    return nullptr;
  }
  // A new or changed op: its rules and those of its users may now apply. Users are looked at once
  // each.
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    push(op);
  }
  void notifyOperationModified(Operation *op) override {
    begins.forget(op);
    push(op);
  }
  void notifyOperationErased(Operation *op) override {
    begins.forget(op);
    SmallPtrSet<Operation *, 4> seen;
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp();
          def && seen.insert(def).second && mayMatter(op, def))
        push(def);
    auto it = index_.find(op);
    if (it == index_.end())
      return;
    ops_[it->second] = nullptr;
    index_.erase(it);
  }

private:
  // Whether rules may apply to what an erased op has read, now that it has one user less. To look
  // at a wide one (a concat) costs as much as it has operands, and only its last user matters to
  // it.
  static bool mayMatter(Operation *erased, Operation *def) {
    return def->getNumOperands() <= kFewOperands ||
           llvm::all_of(def->getUsers(), [&](Operation *user) { return user == erased; });
  }

  SmallVector<Operation *> ops_;
  DenseMap<Operation *, size_t> index_;
};

llvm::LogicalResult applyRules(Operation *op, RewriterBase &rewriter, ConcatBegins &begins) {
  auto weftOp = dyn_cast<ir::WeftOp>(op);
  if (!weftOp)
    return llvm::failure();
  if (succeeded(fold(op, rewriter)))
    return llvm::success();
  switch (weftOp.kind()) {
  case ir::Kind::Elementwise:
    return simplifyElementwise(op, rewriter);
  case ir::Kind::Movement:
    return llvm::success(succeeded(simplifyMovement(op, rewriter, begins)) ||
                         succeeded(simplifyInsertion(op, rewriter)));
  case ir::Kind::Reduction:
    return simplifyReduction(op, rewriter);
  case ir::Kind::Contraction:
    return simplifyContraction(op, rewriter);
  default:
    return llvm::failure();
  }
}

class SimplifyPass : public impl::SimplifyPassBase<SimplifyPass> {
public:
  using SimplifyPassBase::SimplifyPassBase;

  void runOnOperation() override {
    func::FuncOp main = sliceMain(getOperation());
    if (!main)
      return signalPassFailure();
    numRewrites += simplify(main.getBody().front()).rewrites;
  }
};

} // namespace

SimplifyWork simplify(Block &block) {
  SimplifyWork work;
  Worklist worklist;
  int64_t budget = 4096;
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    worklist.push(&op);
    budget += kVisitsPerOp;
  }
  IRRewriter rewriter(block.getParentOp()->getContext(), &worklist);
  while (Operation *op = worklist.pop()) {
    if (budget-- == 0) {
      // What is done stays; the program is right at every step.
      op->emitRemark() << "weft-simplify stops here: its rules keep changing this program";
      break;
    }
    if (op == block.getTerminator())
      continue;
    if (isOpTriviallyDead(op)) {
      rewriter.eraseOp(op);
      continue;
    }
    rewriter.setInsertionPoint(op);
    work.operands += op->getNumOperands();
    if (succeeded(applyRules(op, rewriter, worklist.begins)))
      ++work.rewrites;
  }
  work.operands += worklist.begins.work();
  return work;
}

} // namespace weft::compiler
