// What follows every call: eager evaluation, and cuts when the record grows too long, holds too
// much or keeps too much alive.
#include "frontend/recorder/record/state.h"
#include "frontend/recorder/requests/room.h"
#include "frontend/tensor/impl.h"
#include "runtime/memory/buffer.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/SaveAndRestore.h"

namespace weft::recorder {
namespace {

// The suffix of a record whose signatures repeat, and the number of the op that ends its last whole
// period.
struct Periods {
  size_t length = 0; // 0: there is none
  size_t count = 0;  // whole periods in it
  uint64_t last = 0;
};

Periods periods_of(const std::vector<Node *> &nodes) {
  // The longest suffix that repeats, by the prefix function of the reversed sequence (Knuth, Morris
  // and Pratt).
  size_t n = nodes.size();
  auto at = [&](size_t i) {
    return nodes[n - 1 - i]->signature->id;
  };
  std::vector<uint32_t> border(n, 0);
  size_t best_length = 0, best_period = 0;
  for (size_t i = 1, k = 0; i < n; ++i) {
    while (k > 0 && at(i) != at(k))
      k = border[k - 1];
    if (at(i) == at(k))
      ++k;
    border[i] = static_cast<uint32_t>(k);
    size_t length = i + 1, period = length - k;
    if (2 * period <= length)
      best_length = length, best_period = period;
  }
  if (best_period == 0)
    return {};
  // Whole periods from where the repetition starts; what is left over starts the next one.
  size_t start = n - best_length;
  size_t end = start + best_length / best_period * best_period;
  return {best_length, best_length / best_period, nodes[end - 1]->number};
}

// Where to cut a record that reads nothing: after the op with this number. A loop must be cut at
// the same place of its body each time, or each cut compiles a program of its own. So: at the last
// mark, else after as many whole periods of the signatures as there are.
uint64_t cut_point(const std::vector<Node *> &nodes, uint64_t mark) {
  // A mark that leaves most of the record behind it is no use.
  if (mark > nodes.front()->number && mark <= nodes.back()->number)
    return mark - 1;
  if (mark > nodes.back()->number)
    return nodes.back()->number;
  Periods periods = periods_of(nodes);
  return periods.length == 0 ? nodes.back()->number : periods.last; // no period: everything
}

// Where to cut a record that keeps inputs alive. Where the program has cut it last, what is older
// was left over; else after whole periods that are most of the record: a few ops alike say nothing
// of a loop. A mark will not do: what a forward pass that was computed already has kept for the way
// back is left to ops when backward() ends, and a step that is about to end computes them.
std::optional<uint64_t> place_for_inputs(const std::vector<Node *> &nodes) {
  if (uint64_t cut = recorder().last_cut; cut > nodes.front()->number)
    return std::min(cut - 1, nodes.back()->number);
  if (Periods periods = periods_of(nodes); 2 * periods.length >= nodes.size())
    return periods.last;
  return std::nullopt;
}

// What a cut may compute, oldest first: of ranks that are threads each runs what it has recorded
// itself. The others do not count from now on.
std::vector<Node *> open_ops() {
  Recorder &r = recorder();
  std::vector<Node *> nodes;
  r.held_ops = r.held_bytes = 0;
  for (Node *node = r.first; node; node = node->next) {
    if (node->is_open() && (thread_rank == 0 || node->rank == thread_rank)) {
      nodes.push_back(node);
      continue;
    }
    ++r.held_ops;
    for (const Value *result : node->results)
      r.held_bytes += result ? result->type->bytes : 0;
  }
  return nodes;
}

// Computes of these ops those up to this number. One of the results, null where there is none.
std::shared_ptr<runtime::Buffer> cut(const std::vector<Node *> &nodes, uint64_t last,
                                     CutReason reason) {
  // Whatever is alive, or used later, up to there.
  uint64_t epoch = ++recorder().epoch;
  for (Node *node : nodes)
    if (node->number > last)
      for (Value *operand : node->operands)
        operand->epoch = epoch;
  std::vector<ValueRef> kept;
  std::vector<Value *> roots;
  for (Node *node : nodes) {
    if (node->number > last)
      break;
    for (Value *result : node->results)
      if (result && (result->handles > 0 || result->epoch == epoch)) {
        kept.emplace_back(result);
        roots.push_back(result);
      }
  }
  submit(roots, {reason, Session::location()});
  return roots.empty() || !roots.back()->cell ? nullptr : roots.back()->cell->buffer;
}

void cut(CutReason reason) {
  std::vector<Node *> nodes = open_ops();
  if (!nodes.empty())
    cut(nodes, cut_point(nodes, recorder().last_mark), reason);
}

// Recorded ops keep more inputs than the budget. A loop is cut at the same place each time: it may
// take some more of them until there is one to be seen.
void look_at_inputs() {
  Recorder &r = recorder();
  std::vector<Node *> nodes = open_ops();
  std::optional<uint64_t> last;
  if (!nodes.empty())
    last = place_for_inputs(nodes);
  if (!last && !nodes.empty() && ++r.input_looks >= kLimits.input_looks)
    last = nodes.back()->number;
  r.held_input_bytes = r.input_bytes;
  if (!last)
    return;
  r.input_looks = 0;
  // One such program is under way at most: a loop that records faster than they run would fill the
  // memory with their inputs.
  if (std::shared_ptr<runtime::Buffer> earlier = r.freed_inputs.lock();
      earlier && !earlier->is_written()) {
    {
      RecorderMutex::Pause pause(r.mutex);
      earlier->wait().IgnoreError();
    }
    nodes = open_ops();
  }
  r.freed_inputs = cut(nodes, *last, CutReason::kBytes);
  r.held_input_bytes = r.input_bytes;
}

// A loop that reads nothing grows its program with each iteration, and every number of iterations
// is another one. So what is most of the record and repeats many times becomes a program of whole
// iterations, which the next ones find again. What a derivative will read stays: the forward pass
// belongs to the program of its backward pass.
void look_at_repeats() {
  Recorder &r = recorder();
  r.looked_ops = 2 * r.live_ops; // next time, should it stay
  std::vector<Node *> nodes = open_ops();
  bool is_saved = llvm::any_of(nodes, [](const Node *node) {
    return llvm::any_of(node->results, [](const Value *x) { return x && x->is_saved; });
  });
  Periods periods = is_saved || nodes.empty() ? Periods() : periods_of(nodes);
  if (2 * periods.length < nodes.size() || periods.count < kLimits.repeats)
    return;
  cut(nodes, periods.last, CutReason::kOps);
  r.looked_ops = 0;
}

} // namespace

// What the record has too much of.
enum class Excess { kNone, kOps, kBytes, kInputs, kRepeats };
static Excess excess_of(const Recorder &r) {
  int64_t ops = r.live_ops - r.held_ops;
  if (ops >= r.config.budget_ops)
    return Excess::kOps;
  if (r.live_bytes - r.held_bytes >= r.config.budget_bytes)
    return Excess::kBytes;
  if (r.input_bytes - r.held_input_bytes >= std::min(r.config.budget_bytes, kLimits.input_bytes))
    return Excess::kInputs;
  return ops >= std::max(kLimits.repeated_ops, r.looked_ops) ? Excess::kRepeats : Excess::kNone;
}

static constinit thread_local int uncut = 0; // Uncut scopes of this thread

Uncut::Uncut() {
  ++uncut;
}
Uncut::~Uncut() {
  --uncut;
}

// Out of line: each call asks whether it is time for this.
[[gnu::noinline]] static void eager_or_full(Tensor &x, Excess excess) {
  Recorder &r = recorder();
  if (active_trace() || uncut > 0)
    return;
  if (r.config.eager) {
    Var var = read(x, "result");
    Value *value = var.value;
    submit({&value, 1}, {CutReason::kEager, Session::location()});
    wait_for(value, Session::location());
    return;
  }
  if (r.cutting)
    return;
  llvm::SaveAndRestore cutting(r.cutting, true);
  if (excess == Excess::kInputs)
    look_at_inputs();
  else if (excess == Excess::kRepeats)
    look_at_repeats();
  else
    cut(excess == Excess::kOps ? CutReason::kOps : CutReason::kBytes);
}

void mark() {
  recorder().last_mark = recorder().next_number;
}

void after_call(Tensor &x) {
  const Recorder &r = recorder();
  Excess excess = excess_of(r);
  if (r.config.eager || excess != Excess::kNone)
    eager_or_full(x, excess);
}

bool free_inputs(uint64_t before) {
  Recorder &r = recorder();
  // Collectives that are pending would end with a cut that fails.
  bool exchanges = llvm::any_of(r.pending_collectives,
                                [](const auto &of_rank) { return !of_rank.second.empty(); });
  if (r.input_bytes == 0 || r.cutting || exchanges || active_trace())
    return false;
  std::vector<Node *> nodes = open_ops();
  if (nodes.empty() || nodes.front()->number >= before)
    return false;
  llvm::SaveAndRestore cutting(r.cutting, true);
  try {
    cut(nodes, before - 1, CutReason::kBytes);
  } catch (const Error &) {
    return false; // whoever asks for these values learns why
  }
  make_room();
  return true;
}

} // namespace weft::recorder
