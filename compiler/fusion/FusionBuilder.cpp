#include "compiler/fusion/FusionBuilder.h"

#include <queue>

#include "dialects/weft/ir/Weft.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"

namespace weft::compiler {

namespace {

// The nodes of the block's graph after grouping: a group, or an op of its own.
struct Node {
  llvm::SmallVector<mlir::Operation *> ops;
  bool fused = false;
};

void buildFusion(mlir::OpBuilder &builder, const Node &node) {
  llvm::MapVector<mlir::Value, unsigned> inputs;
  llvm::SmallVector<mlir::Value> outputs;
  llvm::DenseMap<mlir::Operation *, unsigned> position;
  for (auto [i, op] : llvm::enumerate(node.ops)) position[op] = i;
  llvm::SmallVector<mlir::Location> locations;
  for (mlir::Operation *op : node.ops) {
    locations.push_back(op->getLoc());
    for (mlir::Value operand : op->getOperands())
      if (mlir::Operation *def = operand.getDefiningOp(); !def || !position.count(def)) inputs.insert({operand, inputs.size()});
    for (mlir::Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](mlir::Operation *user) { return !position.count(user); })) outputs.push_back(result);
  }
  llvm::SmallVector<mlir::Value> operands;
  llvm::SmallVector<mlir::Type> types;
  for (auto &[value, index] : inputs) operands.push_back(value);
  for (mlir::Value value : outputs) types.push_back(value.getType());
  mlir::Location loc = node.ops.size() == 1 ? locations[0] : mlir::FusedLoc::get(builder.getContext(), locations);
  auto fusion = ir::FusionOp::create(builder, loc, types, operands);
  mlir::Block *body = fusion.getBody().empty() ? &fusion.getBody().emplaceBlock() : &fusion.getBody().front();
  for (mlir::Value value : operands) body->addArgument(value.getType(), value.getLoc());
  auto end = body->end();
  if (!body->empty() && body->back().hasTrait<mlir::OpTrait::IsTerminator>()) {
    body->back().erase();
    end = body->end();
  }
  for (mlir::Operation *op : node.ops) {
    op->moveBefore(body, body->end());
    for (mlir::OpOperand &operand : op->getOpOperands())
      if (auto it = inputs.find(operand.get()); it != inputs.end()) operand.set(body->getArgument(it->second));
  }
  for (auto [i, value] : llvm::enumerate(outputs))
    value.replaceUsesWithIf(fusion.getResult(i), [&](mlir::OpOperand &use) { return use.getOwner()->getBlock() != body; });
  mlir::OpBuilder bodyBuilder = mlir::OpBuilder::atBlockEnd(body);
  ir::YieldOp::create(bodyBuilder, loc, outputs);
}

} // namespace

llvm::LogicalResult buildFusions(mlir::Block &block, const FusionGroups &groups) {
  llvm::DenseMap<mlir::Operation *, unsigned> nodeOf;
  std::vector<Node> nodes;
  for (const auto &group : groups) {
    for (mlir::Operation *op : group) nodeOf[op] = nodes.size();
    nodes.push_back({group, true});
  }
  mlir::Operation *terminator = block.getTerminator();
  // The order of nodes follows the first op of each, so that unrelated code stays where its writer put it.
  std::vector<unsigned> rank(nodes.size(), 0);
  unsigned index = 0;
  for (mlir::Operation &op : block.without_terminator()) {
    auto [it, isNew] = nodeOf.insert({&op, nodes.size()});
    if (isNew) {
      nodes.push_back({{&op}, false});
      rank.push_back(0);
    }
    // The last op decides: a group stands where all of its operands are there already in the old order.
    rank[it->second] = index++;
  }
  // Kahn's algorithm over nodes.
  std::vector<llvm::SmallVector<unsigned, 4>> successors(nodes.size());
  std::vector<unsigned> pending(nodes.size(), 0);
  for (auto [i, node] : llvm::enumerate(nodes))
    for (mlir::Operation *op : node.ops)
      for (mlir::Value operand : op->getOperands())
        if (mlir::Operation *def = operand.getDefiningOp())
          if (unsigned from = nodeOf.lookup(def); from != i) {
            successors[from].push_back(i);
            ++pending[i];
          }
  auto later = [&](unsigned a, unsigned b) { return rank[a] > rank[b]; };
  std::priority_queue<unsigned, std::vector<unsigned>, decltype(later)> ready(later);
  for (unsigned i = 0; i < nodes.size(); ++i)
    if (pending[i] == 0) ready.push(i);
  std::vector<unsigned> order;
  while (!ready.empty()) {
    unsigned i = ready.top();
    ready.pop();
    order.push_back(i);
    for (unsigned next : successors[i])
      if (--pending[next] == 0) ready.push(next);
  }
  if (order.size() != nodes.size()) return block.getParentOp()->emitError() << "fusion groups need each other's results in a circle";
  mlir::OpBuilder builder(terminator);
  for (unsigned i : order) {
    if (nodes[i].fused) buildFusion(builder, nodes[i]);
    else nodes[i].ops.front()->moveBefore(terminator);
  }
  return llvm::success();
}

} // namespace weft::compiler
