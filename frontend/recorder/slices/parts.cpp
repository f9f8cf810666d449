#include "frontend/recorder/slices/slice.h"

#include <map>
#include <tuple>

#include "frontend/recorder/record/limits.h"
#include "frontend/recorder/record/state.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace weft::recorder {
namespace {

constexpr uint32_t kNone = ~uint32_t(0);

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

// Ops by their places in the slice. What is found out of each is an array.
class SliceParts {
public:
  explicit SliceParts(const Slice &slice)
      : slice_(slice), nodes_(slice.nodes), depths_(nodes_.size()), groups_(nodes_.size(), kNone) {
    llvm::DenseMap<const Node *, uint32_t> places;
    places.reserve(nodes_.size());
    for (Node *node : nodes_) {
      first_operand_.push_back(static_cast<uint32_t>(operands_.size()));
      for (const Value *operand : node->operands) {
        auto known = operand->node ? places.find(operand->node) : places.end();
        operands_.push_back(known == places.end() ? kNone : known->second);
      }
      places.try_emplace(node, static_cast<uint32_t>(places.size()));
    }
  }

  std::vector<Part> find() {
    find_depths();
    find_groups();
    // By depth, and in it for each group of exchanges what they wait for and then they; what none
    // waits for comes last. An exchange is a part of its own.
    using Key = std::tuple<uint32_t, uint32_t, bool, uint64_t>;
    auto key_of = [&](size_t op) {
      bool exchange = exchanges(op);
      return Key(depths_[op] - exchange, groups_[op], exchange,
                 exchange ? nodes_[op]->number : nodes_[op]->signature->device);
    };
    std::map<Key, uint32_t> parts;
    for (size_t op = 0; op < nodes_.size(); ++op)
      parts.try_emplace(key_of(op));
    uint32_t count = 0;
    for (auto &[key, part] : parts)
      part = count++;
    std::vector<uint32_t> part_of(nodes_.size());
    for (size_t op = 0; op < nodes_.size(); ++op)
      part_of[op] = parts.find(key_of(op))->second;
    return results_of_parts(part_of, count);
  }

private:
  // The ops that define its operands; kNone for a leaf.
  llvm::ArrayRef<uint32_t> operands(size_t op) const {
    return llvm::ArrayRef(operands_).slice(first_operand_[op], nodes_[op]->operands.size());
  }
  bool exchanges(size_t op) const {
    return is_exchange(nodes_[op]);
  }

  // Gives what storages are given, and what reads that, a depth after all others, unless an
  // exchange waits for it: nothing is written in place before the last part that may fail.
  void defer_writes() {
    std::vector<bool> awaited(nodes_.size()), deferred(nodes_.size());
    uint32_t last = 0;
    for (size_t op = nodes_.size(); op-- > 0;) {
      last = std::max(last, depths_[op] + 1);
      if (exchanges(op) || awaited[op])
        for (uint32_t operand : operands(op))
          if (operand != kNone)
            awaited[operand] = true;
    }
    for (size_t op = 0; op < nodes_.size(); ++op) {
      if (exchanges(op) || awaited[op])
        continue;
      auto is_deferred = [&](uint32_t operand) {
        return operand != kNone && deferred[operand];
      };
      deferred[op] = writes_state(nodes_[op]) || llvm::any_of(operands(op), is_deferred);
      if (deferred[op])
        depths_[op] = last;
    }
  }

  // All collectives keep the order in which they were recorded, since other ranks start theirs in
  // it.
  void find_depths() {
    uint32_t last_collective = 0;
    for (size_t op = 0; op < nodes_.size(); ++op) {
      uint32_t depth = 0;
      for (uint32_t operand : operands(op))
        if (operand != kNone)
          depth = std::max(depth, depths_[operand]);
      depth += exchanges(op);
      if (nodes_[op]->signature->exchange == Exchange::kCollective)
        depth = last_collective = std::max(depth, last_collective);
      depths_[op] = depth;
    }
    if (slice_.checks)
      defer_writes();
    // What is no work goes to the first of the ops that read it, the last op first.
    std::vector<uint32_t> first_use(nodes_.size(), kNone);
    for (size_t op = nodes_.size(); op-- > 0;) {
      uint32_t &depth = depths_[op];
      if (first_use[op] != kNone && !exchanges(op) && !is_work(nodes_[op]))
        depth = std::max(depth, first_use[op]);
      // An exchange waits for all that stands before it.
      for (uint32_t operand : operands(op))
        if (operand != kNone)
          first_use[operand] = std::min(first_use[operand], depth - exchanges(op));
    }
  }

  // Exchanges of one depth in the order of recording, as many together as have the bytes that are
  // worth a program's end: a group is under way while what the next one waits for is computed. Then
  // for each op of the depth before the first group that waits for it.
  void find_groups() {
    struct Open {
      uint32_t group = 0;
      int64_t bytes = 0;
    };
    std::map<uint32_t, Open> by_depth;
    for (size_t op = 0; op < nodes_.size(); ++op) {
      if (!exchanges(op))
        continue;
      Open &open = by_depth[depths_[op]];
      if (open.bytes >= kLimits.exchanged_bytes)
        open = {open.group + 1, 0};
      open.bytes += nodes_[op]->operands[0]->type->bytes;
      groups_[op] = open.group;
    }
    for (size_t op = nodes_.size(); op-- > 0;)
      for (uint32_t operand : operands(op))
        if (operand != kNone && depths_[operand] == depths_[op] - exchanges(op) &&
            !exchanges(operand))
          groups_[operand] = std::min(groups_[operand], groups_[op]);
  }

  // The results of each part's ops that others read, or somebody holds.
  std::vector<Part> results_of_parts(const std::vector<uint32_t> &part_of, size_t parts) const {
    std::vector<uint32_t> first_result;
    uint32_t results = 0;
    for (const Node *node : nodes_) {
      first_result.push_back(results);
      results += node->results.size();
    }
    std::vector<uint32_t> uses(results); // by ops of its own part
    for (size_t op = 0; op < nodes_.size(); ++op)
      for (auto [operand, value] : llvm::zip(operands(op), nodes_[op]->operands))
        if (operand != kNone && part_of[operand] == part_of[op])
          ++uses[first_result[operand] + value->index];
    std::vector<Part> found(parts);
    for (size_t op = 0; op < nodes_.size(); ++op)
      for (Value *result : nodes_[op]->results)
        if (result &&
            (result->handles > 0 || result->uses > uses[first_result[op] + result->index]))
          found[part_of[op]].emplace_back(result);
    llvm::erase_if(found, [](const Part &part) { return part.empty(); });
    return found;
  }

  const Slice &slice_;
  llvm::ArrayRef<Node *> nodes_;
  std::vector<uint32_t> operands_, first_operand_; // of all ops; where each op's begin
  std::vector<uint32_t> depths_; // how many exchanges an op waits for in a row, itself included
  std::vector<uint32_t> groups_; // of exchanges of one depth, by the op; kNone: none waits for it
};

} // namespace

std::vector<Part> parts_of(const Slice &slice) {
  return SliceParts(slice).find();
}

} // namespace weft::recorder
