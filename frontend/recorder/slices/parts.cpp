#include "frontend/recorder/slices/parts.h"

#include <map>
#include <tuple>

#include "frontend/recorder/record/limits.h"
#include "frontend/recorder/record/state.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

namespace weft::recorder {
namespace {

// The results of these ops that others read, or somebody holds.
Part results_of(const std::vector<const Node *> &nodes) {
  llvm::DenseMap<const Value *, uint32_t> uses;
  for (const Node *node : nodes)
    for (const Value *operand : node->operands)
      ++uses[operand];
  Part part;
  for (const Node *node : nodes)
    for (Value *result : node->results)
      if (result && (result->handles > 0 || result->uses > uses.lookup(result)))
        part.emplace_back(result);
  return part;
}

// Whether the op is worth starting while others wait for a transfer. What is not runs with the ops
// that read it, where it takes no memory of its own.
bool is_work(const Node *node) {
  const ir::WeftOp::Concept *rules = node->signature->rules;
  ir::Kind kind = rules ? rules->kind() : ir::Kind::Composite;
  return kind != ir::Kind::Creation && kind != ir::Kind::Elementwise && kind != ir::Kind::Movement;
}

bool is_exchange(const Node *node) {
  return node->signature->exchange != Exchange::kNone;
}

using Depths = llvm::DenseMap<const Node *, uint32_t>;

// Gives what storages are given, and what reads that, a depth after all others, unless an exchange
// waits for it: nothing is written in place before the last part that may fail.
void defer_writes(const Slice &slice, Depths &depths) {
  llvm::DenseSet<const Node *> awaited, deferred;
  uint32_t last = 0;
  for (const Node *node : llvm::reverse(slice.nodes)) {
    last = std::max(last, depths[node] + 1);
    if (is_exchange(node) || awaited.contains(node))
      for (const Value *operand : node->operands)
        if (operand->node)
          awaited.insert(operand->node);
  }
  for (const Node *node : slice.nodes) {
    if (is_exchange(node) || awaited.contains(node))
      continue;
    bool defers = llvm::any_of(node->results,
                               [](const Value *result) { return result && result->writers; }) ||
                  llvm::any_of(node->operands, [&](const Value *operand) {
                    return operand->node && deferred.contains(operand->node);
                  });
    if (!defers)
      continue;
    deferred.insert(node);
    depths[node] = last;
  }
}

// How many exchanges an op waits for in a row, itself included. All collectives keep the order in
// which they were recorded, since other ranks start theirs in it.
Depths depths_of(const Slice &slice) {
  Depths depths;
  uint32_t last_collective = 0;
  for (const Node *node : slice.nodes) {
    uint32_t depth = 0;
    for (const Value *operand : node->operands)
      if (auto known = depths.find(operand->node); known != depths.end())
        depth = std::max(depth, known->second);
    depth += is_exchange(node);
    if (node->signature->exchange == Exchange::kCollective)
      depth = last_collective = std::max(depth, last_collective);
    depths[node] = depth;
  }
  if (slice.checks)
    defer_writes(slice, depths);
  // What is no work goes to the first of the ops that read it, the last op first.
  llvm::DenseMap<const Node *, uint32_t> first_use;
  for (const Node *node : llvm::reverse(slice.nodes)) {
    auto used = first_use.find(node);
    uint32_t &depth = depths[node];
    if (used != first_use.end() && !is_exchange(node) && !is_work(node))
      depth = std::max(depth, used->second);
    // An exchange waits for all that stands before it.
    uint32_t wanted = depth - is_exchange(node);
    for (const Value *operand : node->operands)
      if (operand->node)
        if (auto [place, fresh] = first_use.try_emplace(operand->node, wanted); !fresh)
          place->second = std::min(place->second, wanted);
  }
  return depths;
}

constexpr uint32_t kNoGroup = ~uint32_t(0);

// Exchanges of one depth in the order of recording, as many together as have the bytes that are
// worth a program's end: a group is under way while what the next one waits for is computed.
using Groups = llvm::DenseMap<const Node *, uint32_t>;
Groups groups_of(const Slice &slice, const Depths &depths) {
  Groups groups;
  struct Open {
    uint32_t group = 0;
    int64_t bytes = 0;
  };
  std::map<uint32_t, Open> by_depth;
  for (const Node *node : slice.nodes) {
    if (!is_exchange(node))
      continue;
    Open &open = by_depth[depths.find(node)->second];
    if (open.bytes >= kLimits.exchanged_bytes)
      open = {open.group + 1, 0};
    open.bytes += node->operands[0]->type->bytes;
    groups[node] = open.group;
  }
  return groups;
}

} // namespace

std::vector<Part> parts_of(const Slice &slice) {
  Depths depths = depths_of(slice);
  Groups groups = groups_of(slice, depths);
  // The first group of exchanges that waits for a computing op of the depth before it.
  llvm::DenseMap<const Node *, uint32_t> needed_by;
  auto group_of = [&](const Node *node) {
    auto known = needed_by.find(node);
    return known == needed_by.end() ? kNoGroup : known->second;
  };
  for (const Node *node : llvm::reverse(slice.nodes)) {
    bool exchange = is_exchange(node);
    uint32_t depth = depths[node] - exchange, group = exchange ? groups[node] : group_of(node);
    for (const Value *operand : node->operands)
      if (auto known = depths.find(operand->node);
          known != depths.end() && known->second == depth && !is_exchange(operand->node))
        needed_by[operand->node] = std::min(group_of(operand->node), group);
  }
  // By depth, and in it for each group of exchanges what they wait for and then they; what none
  // waits for comes last. An exchange is a part of its own.
  std::map<std::tuple<uint32_t, uint32_t, bool, uint64_t>, std::vector<const Node *>> parts;
  for (const Node *node : slice.nodes) {
    bool exchange = is_exchange(node);
    parts[{depths[node] - exchange, exchange ? groups[node] : group_of(node), exchange,
           exchange ? node->number : node->signature->device}]
        .push_back(node);
  }
  std::vector<Part> result;
  for (const auto &[place, nodes] : parts)
    if (Part part = results_of(nodes); !part.empty())
      result.push_back(std::move(part));
  return result;
}

} // namespace weft::recorder
