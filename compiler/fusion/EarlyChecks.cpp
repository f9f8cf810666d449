#include "compiler/fusion/EarlyChecks.h"

#include "compiler/fusion/FusionDomain.h"
#include "compiler/fusion/FusionLimits.h"
#include "compiler/fusion/TensorBytes.h"
#include "compiler/fusion/WriteInPlace.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/IndexBounds.h"
#include "dialects/weft/ir/MayFail.h"
#include "dialects/weft/rules/Rules.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace weft::compiler {

using namespace mlir;

namespace {

bool isLargeKept(Value value) {
  return isLargeDonated(value) && isArgumentWith(value, ir::kKeptAttr);
}

class EarlyChecks {
public:
  EarlyChecks(Block &block, FusionGroups &groups, RefusalCollector &refusals)
      : block_(block), groups_(groups), refusals_(refusals) {}

  void run() {
    findWrites();
    if (writes_.empty())
      return;
    findPredecessors();
    DenseSet<Value> written; // what is computed of what was written
    for (Operation &op : llvm::make_early_inc_range(block_)) {
      bool reads = llvm::any_of(op.getOperands(),
                                [&](Value operand) { return written.contains(operand); });
      if (reads || writes_.contains(&op))
        written.insert(op.result_begin(), op.result_end());
      if (reads && ir::mayFail(&op))
        refuse(op);
      std::optional<ir::IndexBounds> bounds =
          predecessors_.contains(&op) ? std::nullopt : ir::indexBounds(&op);
      if (!bounds)
        continue;
      if (written.contains(bounds->indices))
        refuse(op);
      else if (tensorBytes(bounds->indices) * limits::kCheckedPart <= bytes_)
        checkEarly(op, *bounds);
    }
  }

private:
  void refuse(Operation &op) {
    refusals_.add(refusalName(Refusal::CheckedAfterWrite), &op,
                  refusalText(Refusal::CheckedAfterWrite));
  }

  // The first write of each large kept argument, which is the one that may not copy it.
  void findWrites() {
    for (Operation &op : block_.without_terminator()) {
      if (!isScatter(&op))
        continue;
      Value base = withoutReshapes(op.getOperand(0));
      if (!isLargeKept(base))
        continue;
      if (writes_.empty())
        first_ = &op;
      writes_.insert(&op);
      bytes_ = std::max(bytes_, tensorBytes(base));
    }
  }

  // What the first write reads runs before it in any order.
  void findPredecessors() {
    SmallVector<Operation *> pending{first_};
    while (!pending.empty())
      for (Value operand : pending.pop_back_val()->getOperands())
        if (Operation *definition = operand.getDefiningOp();
            definition && predecessors_.insert(definition).second)
          pending.push_back(definition);
  }

  void checkEarly(Operation &op, const ir::IndexBounds &bounds) {
    // The bound of a size that varies is not known here.
    auto indexed = ir::typeOf(op.getOperand(0));
    auto dim = op.getAttrOfType<IntegerAttr>("dim");
    if (dim && !ir::dimsOf(indexed)[dim.getInt()].isStatic())
      return;
    if (isa<ir::CheckIndexOp>(op)) {
      groups_.push_back({{&op}, {false}});
      return;
    }
    auto user = StringAttr::get(op.getContext(), bounds.user);
    Value &checked = checked_[{bounds.indices, {user, bounds.upper}}];
    if (!checked) {
      OpBuilder builder(&op);
      auto numbers = ir::IotaOp::create(
          builder, op.getLoc(), RankedTensorType::get({bounds.upper}, builder.getI64Type()), 0);
      auto check =
          ir::IndexSelectOp::create(builder, op.getLoc(), numbers.getResult(), bounds.indices, 0);
      check.setUser(user);
      checked = check.getResult();
      groups_.push_back({{numbers, check}, {false, false}});
    }
    op.setOperand(1, checked); // after the tensor that is indexed
    op.setAttr(ir::kInRangeAttr, UnitAttr::get(op.getContext()));
  }

  Block &block_;
  FusionGroups &groups_;
  RefusalCollector &refusals_;
  DenseSet<Operation *> writes_, predecessors_;
  Operation *first_ = nullptr;
  double bytes_ = 0; // of the largest argument that is written
  // By indices, by what errors name, and by how many elements there are.
  DenseMap<std::pair<Value, std::pair<Attribute, int64_t>>, Value> checked_;
};

} // namespace

void checkBeforeWrites(Block &block, FusionGroups &groups, RefusalCollector &refusals) {
  EarlyChecks(block, groups, refusals).run();
}

} // namespace weft::compiler
