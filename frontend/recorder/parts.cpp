#include "frontend/recorder/parts.h"

#include <map>
#include <tuple>

#include "frontend/recorder/state.h"
#include "llvm/ADT/DenseMap.h"
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

} // namespace

std::vector<Part> parts_of(const Slice &slice) {
  // How many transfers an op waits for in a row, itself included.
  llvm::DenseMap<const Node *, uint32_t> depths;
  auto depth_of = [&](const Node *node) {
    auto known = depths.find(node);
    return known == depths.end() ? 0 : known->second;
  };
  for (const Node *node : slice.nodes) {
    uint32_t depth = 0;
    for (const Value *operand : node->operands)
      depth = std::max(depth, depth_of(operand->node));
    depths[node] = depth + node->signature->transfers;
  }
  // What is no work goes to the first of the ops that read it, the last op first.
  llvm::DenseMap<const Node *, uint32_t> first_use;
  for (const Node *node : llvm::reverse(slice.nodes)) {
    auto used = first_use.find(node);
    uint32_t &depth = depths[node];
    if (used != first_use.end() && !node->signature->transfers && !is_work(node))
      depth = std::max(depth, used->second);
    // A transfer waits for all that stands before it.
    uint32_t wanted = depth - node->signature->transfers;
    for (const Value *operand : node->operands)
      if (operand->node)
        if (auto [place, fresh] = first_use.try_emplace(operand->node, wanted); !fresh)
          place->second = std::min(place->second, wanted);
  }
  // By depth, computing ops after transfers; a transfer is a part of its own.
  std::map<std::tuple<uint32_t, bool, uint64_t>, std::vector<const Node *>> parts;
  for (const Node *node : slice.nodes) {
    bool transfers = node->signature->transfers;
    parts[{depths[node], !transfers, transfers ? node->number : node->signature->device}].push_back(
        node);
  }
  std::vector<Part> result;
  for (const auto &[place, nodes] : parts)
    if (Part part = results_of(nodes); !part.empty())
      result.push_back(std::move(part));
  return result;
}

} // namespace weft::recorder
