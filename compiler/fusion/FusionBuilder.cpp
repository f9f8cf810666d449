#include "compiler/fusion/FusionBuilder.h"

#include <queue>

#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace weft::compiler {

using namespace mlir;

namespace {

// A kernel keeps the source lines of at most this many of its ops: more lines say nothing new to a
// reader of an error.
constexpr size_t kMaxLocations = 8;

Location locationOf(MLIRContext *context, const FusionGroup &group) {
  SmallVector<Location> locations;
  for (auto [op, clone] : llvm::zip(group.ops, group.clone))
    if (!clone && locations.size() < kMaxLocations && !llvm::is_contained(locations, op->getLoc()))
      locations.push_back(op->getLoc());
  return locations.size() == 1 ? locations.front() : FusedLoc::get(context, locations);
}

// Builds the kernel at the place of the group's ops. Of ops that were copied into it, the originals
// that nobody reads any more are erased.
void buildFusion(OpBuilder &builder, const FusionGroup &group) {
  DenseSet<Operation *> inside(group.ops.begin(), group.ops.end());
  llvm::MapVector<Value, unsigned> inputs;
  Operation *next = nullptr;
  for (auto [op, clone] : llvm::zip(group.ops, group.clone)) {
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp(); !def || !inside.contains(def))
        inputs.insert({operand, inputs.size()});
    if (!clone)
      next = op->getNextNode();
  }
  Location loc = locationOf(builder.getContext(), group);
  auto body = std::make_unique<Block>();
  SmallVector<Value> operands;
  IRMapping mapping;
  for (auto &[value, index] : inputs) {
    operands.push_back(value);
    mapping.map(value, body->addArgument(value.getType(), value.getLoc()));
  }
  for (auto [op, clone] : llvm::zip(group.ops, group.clone)) {
    builder.setInsertionPointToEnd(body.get());
    if (clone) {
      builder.clone(*op, mapping);
      continue;
    }
    op->moveBefore(body.get(), body->end());
    for (OpOperand &operand : op->getOpOperands())
      operand.set(mapping.lookupOrDefault(operand.get()));
  }
  SmallVector<Operation *> dead;
  for (auto [op, clone] : llvm::reverse(llvm::zip(group.ops, group.clone)))
    if (clone && llvm::all_of(op->getUsers(),
                              [&](Operation *user) { return llvm::is_contained(dead, user); }))
      dead.push_back(op);
  SmallVector<Value> outputs;
  SmallVector<Type> types;
  for (auto [op, clone] : llvm::zip(group.ops, group.clone)) {
    if (clone)
      continue;
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) {
            return user->getBlock() != body.get() && !llvm::is_contained(dead, user);
          })) {
        outputs.push_back(result);
        types.push_back(result.getType());
      }
  }
  builder.setInsertionPoint(next);
  auto fusion = ir::FusionOp::create(builder, loc, types, operands);
  fusion.getBody().getBlocks().clear();
  Block *block = body.release();
  fusion.getBody().push_back(block);
  for (auto [i, value] : llvm::enumerate(outputs))
    value.replaceUsesWithIf(fusion.getResult(i),
                            [&](OpOperand &use) { return use.getOwner()->getBlock() != block; });
  builder.setInsertionPointToEnd(block);
  ir::YieldOp::create(builder, loc, outputs);
  for (Operation *op : dead)
    op->erase();
}

} // namespace

llvm::LogicalResult buildFusions(Block &block, const FusionGroups &groups) {
  // The nodes of the block's graph after grouping: groups first, then ops of their own.
  DenseMap<Operation *, unsigned> nodeOf;
  std::vector<Operation *> singles;
  for (auto [i, group] : llvm::enumerate(groups))
    for (auto [op, clone] : llvm::zip(group.ops, group.clone))
      if (!clone)
        nodeOf[op] = i;
  // A node is ranked by its last op: there, all of its operands are defined.
  std::vector<unsigned> rank(groups.size(), 0);
  unsigned index = 0;
  for (Operation &op : block.without_terminator()) {
    auto [it, isNew] = nodeOf.insert({&op, groups.size() + singles.size()});
    if (isNew) {
      singles.push_back(&op);
      rank.push_back(0);
    }
    rank[it->second] = index++;
  }
  size_t count = groups.size() + singles.size();
  std::vector<SmallVector<unsigned, 4>> successors(count);
  std::vector<unsigned> pending(count, 0);
  auto addEdges = [&](unsigned node, ArrayRef<Operation *> ops) {
    DenseSet<Operation *> inside(ops.begin(), ops.end());
    for (Operation *op : ops)
      for (Value operand : op->getOperands())
        if (Operation *def = operand.getDefiningOp(); def && !inside.contains(def)) {
          successors[nodeOf.lookup(def)].push_back(node);
          ++pending[node];
        }
  };
  for (auto [i, group] : llvm::enumerate(groups))
    addEdges(i, group.ops);
  for (auto [i, op] : llvm::enumerate(singles))
    addEdges(groups.size() + i, op);
  // Kahn's algorithm, earlier nodes first.
  auto later = [&](unsigned a, unsigned b) {
    return rank[a] > rank[b];
  };
  std::priority_queue<unsigned, std::vector<unsigned>, decltype(later)> ready(later);
  for (unsigned i = 0; i < count; ++i)
    if (pending[i] == 0)
      ready.push(i);
  std::vector<unsigned> order;
  while (!ready.empty()) {
    unsigned i = ready.top();
    ready.pop();
    order.push_back(i);
    for (unsigned next : successors[i])
      if (--pending[next] == 0)
        ready.push(next);
  }
  if (order.size() != count)
    return block.getParentOp()->emitError()
           << "fusion groups need each other's results in a circle";

  Operation *terminator = block.getTerminator();
  for (unsigned i : order)
    if (i >= groups.size())
      singles[i - groups.size()]->moveBefore(terminator);
    else
      for (auto [op, clone] : llvm::zip(groups[i].ops, groups[i].clone))
        if (!clone)
          op->moveBefore(terminator);
  // From the last kernel to the first: then the readers of each kernel are kernels already, which
  // hold their own copies of the cloned ops between.
  OpBuilder builder(terminator);
  for (unsigned i : llvm::reverse(order))
    if (i < groups.size())
      buildFusion(builder, groups[i]);
  return llvm::success();
}

} // namespace weft::compiler
