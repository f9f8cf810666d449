#include "compiler/graph/Passes.h"
#include "compiler/graph/Slice.h"
#include "dialects/weft/ir/SameOp.h"
#include "dialects/weft/ir/Weft.h"
#include "llvm/ADT/DenseSet.h"

namespace weft::compiler {

using namespace mlir;

#define GEN_PASS_DEF_CSEPASS
#include "compiler/graph/Passes.h.inc"

namespace {

class CsePass : public impl::CsePassBase<CsePass> {
public:
  using CsePassBase::CsePassBase;

  void runOnOperation() override {
    func::FuncOp main = sliceMain(getOperation());
    if (!main)
      return signalPassFailure();
    Block &block = main.getBody().front();
    // Operands come before their users, so that one walk forward sees every op with its final
    // operands.
    DenseSet<Operation *, ir::SameOp> seen;
    for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
      if (op.getNumRegions() != 0 || !isMemoryEffectFree(&op))
        continue;
      auto [it, isNew] = seen.insert(&op);
      if (isNew)
        continue;
      op.replaceAllUsesWith(*it);
      op.erase();
      ++numMerged;
    }
    for (Operation *op = &block.back(); op;) {
      Operation *previous = op->getPrevNode();
      if (isOpTriviallyDead(op)) {
        op->erase();
        ++numDead;
      }
      op = previous;
    }
  }
};

} // namespace
} // namespace weft::compiler
