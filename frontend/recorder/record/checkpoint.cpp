// weft::checkpoint: what its function records is noted, and what its history saved of it given up.
#include "frontend/recorder/record/checkpoint.h"

#include <unordered_set>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/recorder/record/state.h"
#include "frontend/tensor/impl.h"
#include "weft/checkpoint.h"

namespace weft::recorder {

constinit thread_local CheckpointRegion *thread_checkpoint = nullptr;

namespace {

// An op that may end a run does so once: a check of indices, a user's kernel. Nor do ranks exchange
// twice. What such an op gave is kept, as what came from outside is.
bool runs_once(const Signature &signature) {
  return signature.checks || signature.exchange != Exchange::kNone;
}

// A condition that holds, and is known when g is: whether a sum of some of it equals itself or not.
// The first dim is whole, since its size may vary where a program is for a range of batch sizes.
// Null where reading a part of g is an exchange, or there is none.
Var condition_of(const Var &g) {
  if (!g || g.type().part || g.type().elements == 0)
    return Var();
  call_device = {g.device(), true};
  Var some = g.without_history();
  if (size_t rank = g.dims().size()) {
    Shape starts(rank, 0), steps(rank, 1), limits(rank, 1), dims;
    limits[0] = g.dims()[0];
    for (size_t i = 0; i < rank; ++i)
      dims.push_back(static_cast<int64_t>(i));
    some = emit_reduce_sum(emit_slice(some, starts, limits, steps), dims);
  }
  return emit_or(emit_compare(Comparison::kEq, some, some),
                 emit_compare(Comparison::kNe, some, some));
}

// x, but not before the condition is known. It is a choice between x and zero, so that no pass has
// to know of fences: kernels make it while they read x. Left as they are: parts of ranks, whose
// condition would be an exchange, and what costs no memory.
Var fenced(const Var &x, const Var &condition) {
  if (!condition || x.type().part || x.value->is_scalar || x.type().elements == 0 ||
      x.device() != condition.device())
    return x;
  call_device = {x.device(), true};
  return emit_select(broadcast(condition, x.dims()), x,
                     broadcast(emit_constant(0, x.dtype()), x.dims()));
}

} // namespace

class CheckpointRegion : Scope {
public:
  CheckpointRegion(std::span<const Var> inputs, SourceLine *line)
      : outer(thread_checkpoint), line_(line), first_history_(recorder().next_grad_number) {
    for (const Var &input : inputs)
      if (!numbers_.count(input.value))
        add_source(input.value, /*is_fenced=*/true);
    thread_checkpoint = this;
  }
  ~CheckpointRegion() {
    thread_checkpoint = outer;
  }

  void note(const Node &node) {
    if (runs_once(*node.signature)) {
      for (Value *result : node.results)
        add_source(result, /*is_fenced=*/true);
      return;
    }
    Checkpoint::Op op{node.signature, node.line, {}, 0};
    for (Value *operand : node.operands) {
      auto known = numbers_.find(operand);
      op.operands.push_back(known != numbers_.end() ? known->second : add_source(operand, false));
    }
    op.first = static_cast<uint32_t>(values_.size());
    for (Value *result : node.results) {
      numbers_[result] = static_cast<uint32_t>(values_.size());
      values_.push_back({result, {}, static_cast<int32_t>(ops_.size()), false});
    }
    ops_.push_back(std::move(op));
  }

  // The history of the results gives up what the ops made.
  void close(std::span<const Var> results) {
    std::vector<Wanted> wanted = wanted_by_history(results);
    for (const std::weak_ptr<Checkpoint> &weak : inner_)
      if (std::shared_ptr<Checkpoint> inner = weak.lock())
        for (Checkpoint::Source &source : inner->sources)
          if (std::optional<uint32_t> number = made(source.value))
            wanted.push_back({nullptr, *number, 0, &source, inner});
    if (wanted.empty())
      return;
    std::shared_ptr<Checkpoint> checkpoint = checkpoint_of(wanted);
    for (const Wanted &each : wanted)
      if (each.source) {
        each.source->outer = checkpoint;
        each.source->outer_number = each.number;
        each.source->value = nullptr;
      } else {
        each.node->given_up.push_back({checkpoint, each.number, each.index});
        each.node->saved[each.index] = nullptr;
      }
    for (CheckpointRegion *around = outer; around; around = around->outer)
      around->inner_.push_back(checkpoint);
  }

  CheckpointRegion *const outer;

private:
  // What came from outside (op < 0) has a handle. What an op made is alive as long as others want
  // it.
  struct Noted {
    WeakRef value; // no other one gets its address
    ValueRef held;
    int32_t op;
    bool is_fenced;
  };
  // A saved value of a node's, or an inner checkpoint's source, that an op made.
  struct Wanted {
    GradNode *node;
    uint32_t number;
    uint32_t index; // as GivenUp has it
    Checkpoint::Source *source = nullptr;
    std::shared_ptr<Checkpoint> inner = nullptr; // whose it is
  };

  uint32_t add_source(Value *value, bool is_fenced) {
    auto number = static_cast<uint32_t>(values_.size());
    numbers_[value] = number;
    values_.push_back({value, value, -1, is_fenced});
    return number;
  }

  std::optional<uint32_t> made(const ValueRef &value) const {
    auto known = value ? numbers_.find(value) : numbers_.end();
    return known != numbers_.end() && values_[known->second].op >= 0 ? std::optional(known->second)
                                                                     : std::nullopt;
  }

  std::vector<Wanted> wanted_by_history(std::span<const Var> results) const {
    std::vector<GradNode *> nodes;
    std::unordered_set<GradNode *> seen;
    auto visit = [&](const GradRef &node) {
      if (node && !node->is_leaf() && node->number >= first_history_ &&
          seen.insert(node.get()).second)
        nodes.push_back(node.get());
    };
    for (const Var &result : results)
      visit(result.grad);
    std::vector<Wanted> wanted;
    for (size_t i = 0; i < nodes.size(); ++i) {
      GradNode *node = nodes[i];
      for (const GradEdge &edge : node->edges)
        visit(edge.node);
      for (uint32_t k = 0; k < node->saved.size(); ++k)
        if (std::optional<uint32_t> number = made(node->saved[k]))
          wanted.push_back({node, *number, k});
    }
    return wanted;
  }

  std::shared_ptr<Checkpoint> checkpoint_of(const std::vector<Wanted> &wanted) const {
    std::vector<bool> needed(values_.size()), op_needed(ops_.size());
    for (const Wanted &each : wanted)
      needed[each.number] = true;
    // Backwards: an op reads what has lower numbers than its results.
    for (size_t n = values_.size(); n-- > 0;)
      if (int32_t op = values_[n].op; needed[n] && op >= 0 && !op_needed[op]) {
        op_needed[op] = true;
        for (uint32_t operand : ops_[op].operands)
          needed[operand] = true;
      }
    auto checkpoint = std::make_shared<Checkpoint>();
    checkpoint->line = line_;
    checkpoint->values = static_cast<uint32_t>(values_.size());
    for (uint32_t n = 0; n < values_.size(); ++n)
      if (needed[n] && values_[n].op < 0)
        checkpoint->sources.push_back({values_[n].held, n, values_[n].is_fenced});
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (!op_needed[i])
        continue;
      Checkpoint::Op &op = checkpoint->ops.emplace_back(ops_[i]);
      for (uint32_t k = 0; k < op.signature->results.size(); ++k)
        op.results.push_back(values_[op.first + k].value->type);
    }
    return checkpoint;
  }

  LineRef line_;
  uint64_t first_history_;
  std::unordered_map<const Value *, uint32_t> numbers_;
  std::vector<Noted> values_; // by number; the results of an op in a row
  std::vector<Checkpoint::Op> ops_;
  std::vector<std::weak_ptr<Checkpoint>> inner_; // that were closed in here
};

void note_recorded(CheckpointRegion &region, const Node &node) {
  for (CheckpointRegion *each = &region; each; each = each->outer)
    each->note(node);
}

CheckpointScope::CheckpointScope(const std::vector<Tensor> &inputs, Location location) {
  Session session("checkpoint", location);
  std::vector<Var> values;
  for (const Tensor &input : inputs)
    if (input.defined())
      values.push_back(read(input, "inputs"));
  region_ = std::make_unique<CheckpointRegion>(values, Session::line());
}

CheckpointScope::~CheckpointScope() {
  UnderLock lock;
  region_.reset();
}

void CheckpointScope::close(const std::vector<Tensor> &results, Location location) {
  Session session("checkpoint", location);
  std::vector<Var> values;
  for (const Tensor &result : results)
    if (result.defined())
      values.push_back(read(result, "results"));
  region_->close(values);
  region_.reset();
}

//===-- The way back --------------------------------------------------------------------------===//

void Replay::put_back(GradNode &node, const Var &cotangent) {
  Var condition;
  for (const GivenUp &each : node.given_up) {
    if (!done_.count(each.checkpoint)) {
      if (!condition)
        condition = condition_of(cotangent);
      // Those around it that it reads from come first.
      std::vector<std::shared_ptr<Checkpoint>> waiting{each.checkpoint};
      while (!waiting.empty()) {
        std::shared_ptr<Checkpoint> last = waiting.back();
        size_t before = waiting.size();
        for (const Checkpoint::Source &source : last->sources)
          if (source.outer && !done_.count(source.outer))
            waiting.push_back(source.outer);
        if (waiting.size() > before)
          continue;
        waiting.pop_back();
        if (!done_.count(last))
          record(last, condition);
      }
    }
    node.saved[each.index] = done_.at(each.checkpoint)[each.number];
  }
}

void Replay::give_up(GradNode &node) {
  for (const GivenUp &each : node.given_up)
    node.saved[each.index] = nullptr;
}

void Replay::record(const std::shared_ptr<Checkpoint> &checkpoint, const Var &condition) {
  std::vector<ValueRef> values(checkpoint->values);
  for (const Checkpoint::Source &source : checkpoint->sources) {
    Var x{source.outer ? done_.at(source.outer)[source.outer_number] : source.value};
    values[source.number] = source.is_fenced ? fenced(x, condition).value : x.value;
  }
  for (const Checkpoint::Op &op : checkpoint->ops) {
    llvm::SmallVector<Var, 4> operands;
    for (uint32_t number : op.operands)
      operands.push_back(Var{values[number]});
    Node *node = enter(op.signature, pointers(operands), op.line);
    node->again = checkpoint->line;
    for (uint32_t i = 0; i < node->results.size(); ++i) {
      values[op.first + i] = node->results[i];
      node->results[i]->type = op.results[i];
    }
  }
  done_[checkpoint] = std::move(values);
}

} // namespace weft::recorder
