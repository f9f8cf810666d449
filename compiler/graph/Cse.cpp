#include "compiler/graph/Passes.h"
#include "compiler/graph/Slice.h"
#include "dialects/weft/ir/Weft.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/Hashing.h"

namespace weft::compiler {

using namespace mlir;

#define GEN_PASS_DEF_CSEPASS
#include "compiler/graph/Passes.h.inc"

namespace {

// Ops by what they compute: name, properties, operands, result types; not their locations.
struct ByComputation : llvm::DenseMapInfo<Operation *> {
  static unsigned getHashValue(const Operation *op) {
    return OperationEquivalence::computeHash(
        const_cast<Operation *>(op), OperationEquivalence::directHashValue,
        OperationEquivalence::ignoreHashValue, OperationEquivalence::IgnoreLocations);
  }
  static bool isEqual(const Operation *a, const Operation *b) {
    auto *left = const_cast<Operation *>(a), *right = const_cast<Operation *>(b);
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
    func::FuncOp main = sliceMain(getOperation());
    if (!main)
      return signalPassFailure();
    Block &block = main.getBody().front();
    // Operands come before their users, so that one walk forward sees every op with its final
    // operands.
    DenseSet<Operation *, ByComputation> seen;
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
