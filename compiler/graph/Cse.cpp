#include "compiler/graph/Passes.h"
#include "compiler/graph/Slice.h"
#include "dialects/weft/ir/Weft.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/Hashing.h"

namespace weft::compiler {

#define GEN_PASS_DEF_CSEPASS
#include "compiler/graph/Passes.h.inc"

namespace {

using mlir::OperationEquivalence;

// Ops by what they compute: name, properties, operands, result types; not their locations.
struct ByComputation : llvm::DenseMapInfo<mlir::Operation *> {
  static unsigned getHashValue(const mlir::Operation *op) {
    return OperationEquivalence::computeHash(
        const_cast<mlir::Operation *>(op), OperationEquivalence::directHashValue,
        OperationEquivalence::ignoreHashValue, OperationEquivalence::IgnoreLocations);
  }
  static bool isEqual(const mlir::Operation *a, const mlir::Operation *b) {
    auto *left = const_cast<mlir::Operation *>(a), *right = const_cast<mlir::Operation *>(b);
    if (left == right)
      return true;
    if (left == getTombstoneKey() || left == getEmptyKey() || right == getTombstoneKey() ||
        right == getEmptyKey())
      return false;
    return OperationEquivalence::isEquivalentTo(left, right, OperationEquivalence::IgnoreLocations);
  }
};

class CsePass : public impl::CsePassBase<CsePass> {
public:
  using CsePassBase::CsePassBase;

  void runOnOperation() override {
    mlir::func::FuncOp main = sliceMain(getOperation());
    if (!main)
      return signalPassFailure();
    mlir::Block &block = main.getBody().front();
    // Operands come before their users, so that one walk forward sees every op with its final
    // operands.
    llvm::DenseSet<mlir::Operation *, ByComputation> seen;
    for (mlir::Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
      if (op.getNumRegions() != 0 || !mlir::isMemoryEffectFree(&op))
        continue;
      auto [it, isNew] = seen.insert(&op);
      if (isNew)
        continue;
      op.replaceAllUsesWith(*it);
      op.erase();
      ++numMerged;
    }
    for (mlir::Operation *op = &block.back(); op;) {
      mlir::Operation *previous = op->getPrevNode();
      if (mlir::isOpTriviallyDead(op)) {
        op->erase();
        ++numDead;
      }
      op = previous;
    }
  }
};

} // namespace
} // namespace weft::compiler
