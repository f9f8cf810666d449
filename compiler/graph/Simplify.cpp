#include "compiler/graph/Simplify.h"

#include "compiler/graph/Passes.h"
#include "compiler/graph/Slice.h"
#include "llvm/ADT/DenseMap.h"

namespace weft::compiler {

#define GEN_PASS_DEF_SIMPLIFYPASS
#include "compiler/graph/Passes.h.inc"

namespace {

// Each op may be looked at this often on average before the driver stops: rules that undo each
// other must not loop for ever, and what real programs need is below 3.
constexpr int64_t kVisitsPerOp = 16;

// Ops to look at, each at most once at a time. A vector and an index, as in MLIR's greedy driver;
// but the driver here never walks the block again, never hashes constants and never recurses, so
// that it stays linear on chains and on values with many users.
class Worklist : public mlir::RewriterBase::Listener {
public:
  void push(mlir::Operation *op) {
    auto [it, isNew] = index_.insert({op, ops_.size()});
    if (isNew)
      ops_.push_back(op);
  }
  mlir::Operation *pop() {
    while (!ops_.empty()) {
      mlir::Operation *op = ops_.pop_back_val();
      if (!op)
        continue;
      index_.erase(op);
      return op;
    }
    return nullptr;
  }
  // A new or changed op: its rules and those of its users may now apply. Users are looked at once
  // each.
  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint) override {
    push(op);
  }
  void notifyOperationModified(mlir::Operation *op) override {
    push(op);
  }
  void notifyOperationErased(mlir::Operation *op) override {
    for (mlir::Value operand : op->getOperands())
      if (mlir::Operation *def = operand.getDefiningOp())
        push(def);
    auto it = index_.find(op);
    if (it == index_.end())
      return;
    ops_[it->second] = nullptr;
    index_.erase(it);
  }

private:
  llvm::SmallVector<mlir::Operation *> ops_;
  llvm::DenseMap<mlir::Operation *, size_t> index_;
};

class SimplifyPass : public impl::SimplifyPassBase<SimplifyPass> {
public:
  using SimplifyPassBase::SimplifyPassBase;

  void runOnOperation() override {
    mlir::func::FuncOp main = sliceMain(getOperation());
    if (!main)
      return signalPassFailure();
    mlir::Block &block = main.getBody().front();
    Worklist worklist;
    int64_t budget = 4096;
    for (mlir::Operation &op : llvm::reverse(block.without_terminator())) {
      worklist.push(&op);
      budget += kVisitsPerOp;
    }
    mlir::IRRewriter rewriter(&getContext(), &worklist);
    while (mlir::Operation *op = worklist.pop()) {
      if (budget-- == 0) {
        // What is done stays; the program is right at every step.
        op->emitRemark() << "weft-simplify stops here: its rules keep changing this program";
        break;
      }
      if (op == block.getTerminator())
        continue;
      if (mlir::isOpTriviallyDead(op)) {
        rewriter.eraseOp(op);
        continue;
      }
      rewriter.setInsertionPoint(op);
      if (succeeded(simplify(op, rewriter)))
        ++numRewrites;
    }
  }

private:
  static llvm::LogicalResult simplify(mlir::Operation *op, mlir::RewriterBase &rewriter) {
    auto weftOp = mlir::dyn_cast<ir::WeftOp>(op);
    if (!weftOp)
      return llvm::failure();
    if (succeeded(fold(op, rewriter)))
      return llvm::success();
    switch (weftOp.kind()) {
    case ir::Kind::Elementwise:
      return simplifyElementwise(op, rewriter);
    case ir::Kind::Movement:
      return simplifyMovement(op, rewriter);
    case ir::Kind::Reduction:
      return simplifyReduction(op, rewriter);
    case ir::Kind::Contraction:
      return simplifyContraction(op, rewriter);
    default:
      return llvm::failure();
    }
  }
};

} // namespace
} // namespace weft::compiler
