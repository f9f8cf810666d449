#include "compiler/fusion/FusionGraph.h"

#include "compiler/fusion/FusionDomain.h"
#include "compiler/fusion/FusionLimits.h"
#include "dialects/weft/ir/Attention.h"
#include "dialects/weft/ir/Weft.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace weft::compiler {

using namespace mlir;

bool isSplat(Operation *op) {
  auto constant = dyn_cast<ir::ConstantOp>(op);
  if (!constant)
    return false;
  auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
  return elements && elements.isSplat();
}

static int64_t elementBits(Value value) {
  return ir::typeOf(value).getElementType().getIntOrFloatBitWidth();
}

// Whether the user needs its operands in memory: the return of results, and library calls. A
// reshape of such an operand is an alias.
static bool readsMemory(Operation *user) {
  return isa<ir::ProviderCallOp, ir::FusionOp>(user) || user->hasTrait<OpTrait::IsTerminator>();
}

FusionGraph::FusionGraph(Block &block) {
  int count = 0;
  for (Operation &op : block)
    index_[&op] = count++;
  findFreeOps(block);
  for (Operation &op : block.without_terminator()) {
    if (free_.count(&op))
      continue;
    Node node;
    node.op = &op;
    node.barrier = isa<ir::ProviderCallOp, ir::FusionOp, ir::ConstantOp>(op) ||
                   FusionDomain::fusible(&op) != Refusal::None;
    nodeOf_[&op] = nodes_.size();
    nodes_.push_back(std::move(node));
  }
  SmallVector<int> producers;
  for (int i = 0; i < numNodes(); ++i) {
    producers.clear();
    for (Value operand : nodes_[i].op->getOperands())
      roots(operand, producers);
    llvm::sort(producers);
    producers.erase(std::unique(producers.begin(), producers.end()), producers.end());
    nodes_[i].producers.assign(producers.begin(), producers.end());
    for (int p : producers)
      nodes_[p].consumers.push_back(i);
  }
  // Finds the nodes whose results are in memory whatever fuses: library calls or the caller read
  // them (through reshapes), very many ops do, or nobody does.
  for (Node &node : nodes_) {
    int64_t readers = 0, reads = 0;
    SmallVector<Value> pending(node.op->getResults());
    while (!pending.empty() && !node.alwaysOutput) {
      Value value = pending.pop_back_val();
      for (Operation *user : value.getUsers()) {
        auto it = nodeOf_.find(user);
        readers += it != nodeOf_.end();
        if (readsMemory(user) || readers > limits::kMaxReaders || ++reads > limits::kMaxReads) {
          node.alwaysOutput = true;
          break;
        }
        if (it == nodeOf_.end())
          pending.append(user->result_begin(), user->result_end());
        else if (nodes_[it->second].barrier)
          node.alwaysOutput = true;
      }
    }
  }
  parent_.resize(nodes_.size());
  groups_.resize(nodes_.size());
  for (int i = 0; i < numNodes(); ++i) {
    parent_[i] = i;
    groups_[i].members = {i};
    groups_[i].position = i;
  }
}

// Users come behind what they use, so that one walk from the end meets them first.
void FusionGraph::findHeads(Block &block) {
  for (Operation &op : llvm::reverse(block.without_terminator()))
    if (movesRows(&op) && llvm::all_of(op.getUsers(), [&](Operation *user) {
          return ir::isAttention(user) || heads_.contains(user);
        }))
      heads_.insert(&op);
}

bool FusionGraph::canBeFree(Operation *op, int64_t &size) const {
  size = 1;
  bool allFree = true;
  for (Value operand : op->getOperands()) {
    Operation *def = operand.getDefiningOp();
    auto it = def ? free_.find(def) : free_.end();
    if (it != free_.end())
      size += it->second;
    else
      allFree = false;
  }
  if (size > limits::kMaxFreeOps)
    return false;
  if (isa<ir::ReshapeOp, ir::BroadcastOp, ir::IotaOp>(op) || heads_.contains(op))
    return true;
  if (isa<ir::SliceOp>(op))
    return true;
  if (auto cast = dyn_cast<ir::CastOp>(op);
      cast && elementBits(cast.getInput()) < elementBits(cast.getResult()))
    return true;
  // What follows another op's result, if only in another shape, belongs to that op's kernel.
  auto followsOp = [&](Value operand) {
    auto reshape = operand.getDefiningOp<ir::ReshapeOp>();
    while (reshape && free_.contains(reshape)) {
      operand = reshape.getInput();
      reshape = operand.getDefiningOp<ir::ReshapeOp>();
    }
    Operation *def = operand.getDefiningOp();
    return def && !free_.contains(def);
  };
  auto weftOp = dyn_cast<ir::WeftOp>(op);
  return weftOp && weftOp.kind() == ir::Kind::Elementwise && allFree &&
         weftOp.cost() < limits::kExpensiveCost && llvm::none_of(op->getOperands(), followsOp);
}

void FusionGraph::findFreeOps(Block &block) {
  findHeads(block);
  for (Operation &op : block.without_terminator()) {
    if (isSplat(&op)) {
      free_[&op] = 0;
      continue;
    }
    int64_t size;
    if (!canBeFree(&op, size))
      continue;
    // A reader needs the value in memory. Then it is computed once, and its other readers read it
    // there as well. A reshape in memory is an alias.
    if (!isa<ir::ReshapeOp>(op) && !heads_.contains(&op) &&
        llvm::any_of(op.getUsers(), [this](Operation *user) {
          return readsMemory(user) || isa<ir::MatmulOp, ir::ReshapeOp>(user) ||
                 ir::isAttention(user) || heads_.contains(user);
        }))
      continue;
    free_[&op] = size;
  }
  // A kernel of one op holds all the free ops that the op reads, each with a constant of its own.
  // If these are more than a kernel may have, the values that stand for them are computed once
  // instead.
  for (Operation &op : block.without_terminator()) {
    if (free_.count(&op))
      continue;
    int64_t ops = 1;
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp())
        ops += 2 * free_.lookup(def);
    if (ops <= kMaxFusionOps)
      continue;
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp();
          def && !isSplat(def) && !isa<ir::ReshapeOp>(def))
        free_.erase(def);
  }
}

void FusionGraph::roots(Value value, SmallVectorImpl<int> &result) const {
  // Bounded, as a free op stands for a bounded number of free ops (kMaxFreeOps).
  SmallVector<Value> pending{value};
  while (!pending.empty()) {
    Operation *def = pending.pop_back_val().getDefiningOp();
    if (!def)
      continue;
    if (free_.count(def))
      pending.append(def->operand_begin(), def->operand_end());
    else
      result.push_back(nodeOf_.lookup(def));
  }
}

void FusionGraph::readersOf(Value value, SmallVectorImpl<int> &readers) const {
  SmallVector<Value> pending{value};
  int64_t reads = 0;
  while (!pending.empty())
    for (Operation *user : pending.pop_back_val().getUsers()) {
      if (static_cast<int64_t>(readers.size()) >= limits::kMaxReaders ||
          ++reads > limits::kMaxReads)
        return readers.clear();
      if (auto it = nodeOf_.find(user); it != nodeOf_.end())
        readers.push_back(it->second);
      else if (free_.count(user))
        pending.append(user->result_begin(), user->result_end());
    }
  llvm::sort(readers);
  readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
}

int FusionGraph::groupOf(int node) const {
  int root = node;
  while (parent_[root] != root)
    root = parent_[root];
  while (parent_[node] != root) {
    int next = parent_[node];
    parent_[node] = root;
    node = next;
  }
  return root;
}

//===-- Contents ------------------------------------------------------------------------------===//

void FusionGraph::collect(ArrayRef<int> members, SmallVectorImpl<Operation *> &ops,
                          SmallVectorImpl<Value> &outputs) const {
  DenseMap<Operation *, bool>
      inside; // whether a free op reads a member, directly or not; true for members
  for (int member : members) {
    inside[nodes_[member].op] = true;
    ops.push_back(nodes_[member].op);
  }
  // Post-order over the free ops that members read.
  for (int member : members) {
    SmallVector<Operation *> pending;
    auto visit = [&](Operation *op) {
      for (Value operand : op->getOperands())
        if (Operation *def = operand.getDefiningOp(); def && free_.count(def) && !inside.count(def))
          pending.push_back(def);
    };
    visit(nodes_[member].op);
    while (!pending.empty()) {
      Operation *op = pending.back();
      if (inside.count(op)) {
        pending.pop_back();
        continue;
      }
      size_t before = pending.size();
      visit(op);
      if (pending.size() != before)
        continue;
      pending.pop_back();
      bool reads = llvm::any_of(op->getOperands(), [&](Value operand) {
        Operation *def = operand.getDefiningOp();
        return def && inside.lookup(def);
      });
      // A reshape of a value in memory is an alias: it stays a kernel input, so that the in-place
      // analysis sees the buffer. A value that the kernel computes again is not in memory, even if
      // all of its operands are.
      bool alias = isa<ir::ReshapeOp>(op) && !reads;
      inside[op] = reads || !isa<ir::ReshapeOp, ir::ConstantOp>(op);
      if (!alias)
        ops.push_back(op);
    }
  }
  // An alias may read free ops that no other op reads. They stay outside of the kernel with it.
  SmallPtrSet<Operation *, 16> needed;
  llvm::sort(ops, [&](Operation *a, Operation *b) { return index_.lookup(a) < index_.lookup(b); });
  SmallVector<Operation *> kept;
  for (Operation *op : llvm::reverse(ops)) {
    if (free_.count(op) && !needed.count(op))
      continue;
    kept.push_back(op);
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp())
        needed.insert(def);
  }
  ops.assign(kept.rbegin(), kept.rend());
  for (int member : members)
    for (Value result : nodes_[member].op->getResults())
      if (nodes_[member].alwaysOutput || isReadOutside(result, inside))
        outputs.push_back(result);
}

bool FusionGraph::isReadOutside(Value value, const DenseMap<Operation *, bool> &inside) const {
  if (value.use_empty())
    return true;
  SmallVector<Value> pending{value};
  while (!pending.empty())
    for (Operation *user : pending.pop_back_val().getUsers()) {
      if (nodeOf_.count(user)) {
        if (!inside.count(user))
          return true;
      } else if (free_.count(user)) {
        pending.append(user->result_begin(), user->result_end());
      } else {
        return true;
      }
    }
  return false;
}

bool FusionGraph::isReadByOtherGroup(int i) const {
  SmallVector<int> readers;
  for (Value result : nodes_[i].op->getResults())
    readersOf(result, readers);
  return llvm::any_of(readers, [&](int reader) { return groupOf(reader) != groupOf(i); });
}

void FusionGraph::setFree(ArrayRef<int> nodes) {
  for (int node : nodes) {
    auto &members = groups_[groupOf(node)].members;
    members.erase(llvm::find(members, node));
    nodeOf_.erase(nodes_[node].op);
    free_[nodes_[node].op] = 1;
  }
}

void FusionGraph::unsetFree(ArrayRef<int> nodes, int group) {
  for (int node : nodes) {
    free_.erase(nodes_[node].op);
    nodeOf_[nodes_[node].op] = node;
    groups_[group].members.push_back(node);
  }
  llvm::sort(groups_[group].members);
}

//===-- Merging -------------------------------------------------------------------------------===//
// Pearce and Kelly's dynamic topological order: two groups may merge unless a third lies on a path
// between them, and then only the groups between their positions change places.

bool FusionGraph::search(int from, int limitPosition, int target, int skip, bool forward, int mark,
                         SmallVectorImpl<int> &seen, int64_t &budget) {
  SmallVector<int> pending{from};
  while (!pending.empty()) {
    int group = pending.pop_back_val();
    for (int member : groups_[group].members)
      for (int next : forward ? nodes_[member].consumers : nodes_[member].producers) {
        if (--budget < 0)
          return true;
        int other = groupOf(next);
        if (other == group || groups_[other].mark == mark)
          continue;
        if (other == target) {
          // An edge straight from one group to the other becomes internal when they merge. A path
          // through a third group becomes a circle.
          if (group == skip)
            continue;
          return true;
        }
        int position = groups_[other].position;
        if (forward ? position > limitPosition : position < limitPosition)
          continue;
        groups_[other].mark = mark;
        seen.push_back(other);
        pending.push_back(other);
      }
  }
  return false;
}

FusionGraph::Order FusionGraph::canMerge(int a, int b) {
  if (groups_[a].position > groups_[b].position)
    std::swap(a, b);
  before_.clear();
  after_.clear();
  int64_t budget = limits::kMaxSearch;
  if (search(a, groups_[b].position, b, a, true, ++marks_, after_, budget))
    return budget < 0 ? Order::TooFar : Order::Circle;
  if (search(b, groups_[a].position, a, b, false, ++marks_, before_, budget))
    return budget < 0 ? Order::TooFar : Order::Circle;
  return Order::Fine;
}

int FusionGraph::merge(int a, int b) {
  if (groups_[a].position > groups_[b].position)
    std::swap(a, b);
  SmallVector<int> places{groups_[a].position, groups_[b].position};
  auto byPosition = [&](int x, int y) {
    return groups_[x].position < groups_[y].position;
  };
  llvm::sort(before_, byPosition);
  llvm::sort(after_, byPosition);
  for (int group : before_)
    places.push_back(groups_[group].position);
  for (int group : after_)
    places.push_back(groups_[group].position);
  llvm::sort(places);
  int root = groups_[a].members.size() >= groups_[b].members.size() ? a : b,
      other = root == a ? b : a;
  size_t next = 0;
  for (int group : before_)
    groups_[group].position = places[next++];
  groups_[root].position = places[next++];
  // Two groups had two places and need one. The place after the merged group stays unused, so that
  // later groups keep theirs.
  ++next;
  for (int group : after_)
    groups_[group].position = places[next++];
  parent_[other] = root;
  groups_[root].members.append(groups_[other].members);
  llvm::sort(groups_[root].members);
  groups_[other].members.clear();
  return root;
}

} // namespace weft::compiler
