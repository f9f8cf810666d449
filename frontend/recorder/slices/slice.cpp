#include "frontend/recorder/slices/slice.h"

#include <algorithm>
#include <map>

namespace weft::recorder {

static constexpr int64_t kScalarBytes = 8; // the widest dtype
static constexpr size_t kSortedOps =
    8; // so many ops of the record are passed in the time in which one is sorted

bool collect(std::span<Value *const> roots, Slice &slice, uint32_t tracer) {
  Recorder &r = recorder();
  uint64_t epoch = ++r.epoch;
  llvm::SmallVectorImpl<Node *> &nodes = slice.nodes;
  auto visit = [&](Value *value) {
    Node *node = value->node;
    if (!node || node->epoch == epoch)
      return true;
    if (node->claimed || node->tracer != tracer)
      return false;
    node->epoch = epoch;
    nodes.push_back(node);
    return true;
  };
  for (Value *root : roots)
    if (!visit(root))
      return false;
  size_t operands = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    operands += nodes[i]->operands.size();
    for (Value *operand : nodes[i]->operands)
      if (!visit(operand))
        return false;
  }
  // Recorded order is topological, and the same whenever a program is recorded again. The record is
  // in this order: where the slice is most of it, reading it again is cheaper than sorting.
  if (r.live_ops <= static_cast<int64_t>(kSortedOps * nodes.size())) {
    nodes.clear();
    for (Node *node = r.first; node; node = node->next)
      if (node->epoch == epoch)
        nodes.push_back(node);
  } else {
    std::ranges::sort(nodes, {}, &Node::number);
  }

  if (!nodes.empty()) {
    slice.device = nodes.front()->signature->device;
    slice.is_exchange = nodes.size() == 1 && nodes.front()->signature->exchange != Exchange::kNone;
  }
  slice.key.code.resize(nodes.size() + operands);
  uint32_t *code = slice.key.code.data();
  uint32_t next = 0, others = 0; // others: not 0 where an op is none of one program's
  for (Node *node : nodes) {
    slice.checks = slice.checks || node->signature->checks;
    slice.has_stayed = slice.has_stayed || node->stays;
    others |= static_cast<uint32_t>(node->signature->device ^ slice.device) |
              static_cast<uint32_t>(node->signature->exchange);
    *code++ = node->signature->id;
    for (Value *operand : node->operands) {
      if (operand->epoch != epoch) { // a leaf that was not met before: results of the slice's own
                                     // nodes were numbered below
        operand->epoch = epoch;
        operand->slice_uses = 0;
        operand->number = kLeafBit | static_cast<uint32_t>(slice.leaves.size());
        slice.leaves.push_back(operand);
      }
      ++operand->slice_uses;
      *code++ = operand->number;
    }
    for (Value *result : node->results) {
      if (result) {
        result->epoch = epoch;
        result->slice_uses = 0;
        result->number = next;
      }
      ++next;
    }
  }
  slice.stable.resize(slice.leaves.size());
  slice.is_mixed = others != 0 && !slice.is_exchange;
  for (Value *leaf : slice.leaves) {
    // Nobody but this slice can ever read the buffer again. A single number is not worth a program
    // of its own: a scalar that a loop starts from cannot be given, the buffer that its first
    // iteration leaves could.
    ProgramKey::Leaf &flags = slice.key.leaves.emplace_back();
    flags.type = leaf->type->id;
    flags.donatable = !leaf->is_scalar && leaf->type->bytes > kScalarBytes && leaf->handles == 0 &&
                      leaf->uses == leaf->slice_uses && leaf->cell->owners == 1 &&
                      !leaf->cell->borrowed;
    flags.kept = flags.donatable && slice.checks && leaf->cell->keeping_storages() > 0;
  }
  for (Node *node : nodes)
    for (Value *result : node->results)
      if (result && (result->handles > 0 || result->uses > result->slice_uses)) {
        slice.outputs.push_back(result);
        slice.key.outputs.push_back(result->number);
      }
  return true;
}

std::vector<std::string> checkpoint_notes(const Slice &slice) {
  std::map<std::string, int64_t> ops; // by place
  for (const Node *node : slice.nodes)
    if (node->again)
      ++ops[node->again->place()];
  std::vector<std::string> notes;
  for (const auto &[place, count] : ops)
    notes.push_back("checkpoint (" + place + "): " + std::to_string(count) +
                    " ops are computed again for the gradient instead of being kept");
  return notes;
}

} // namespace weft::recorder
