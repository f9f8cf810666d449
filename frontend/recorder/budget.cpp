// What follows every call: eager evaluation, and cuts when the record grows too long or holds too
// much.
#include "frontend/recorder/state.h"
#include "frontend/recorder/state_api.h"
#include "frontend/tensor/impl.h"
#include "llvm/Support/SaveAndRestore.h"

namespace weft::recorder {
namespace {

// Where to cut a record that reads nothing: after the op with this number. A loop must be cut at
// the same place of its body each time, or each cut compiles a program of its own. So: at the last
// mark, else after as many whole periods of the signatures as there are.
uint64_t cut_point(const std::vector<Node *> &nodes, uint64_t mark) {
  // A mark that leaves most of the record behind it is no use.
  if (mark > nodes.front()->number && mark <= nodes.back()->number)
    return mark - 1;
  if (mark > nodes.back()->number)
    return nodes.back()->number;
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
    return nodes.back()->number; // no period: everything
  // Whole periods from where the repetition starts; what is left over starts the next one.
  size_t start = n - best_length;
  size_t end = start + best_length / best_period * best_period;
  return nodes[end - 1]->number;
}

void cut(CutReason reason) {
  Recorder &r = recorder();
  // Of ranks that are threads each runs what it has recorded itself.
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
  if (nodes.empty())
    return;
  uint64_t last = cut_point(nodes, r.last_mark);
  // Whatever is alive, or used later, up to there.
  uint64_t epoch = ++r.epoch;
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
}

} // namespace

static bool has_many_ops(const Recorder &r) {
  return r.live_ops - r.held_ops >= r.config.budget_ops;
}
static bool has_many_bytes(const Recorder &r) {
  return r.live_bytes - r.held_bytes >= r.config.budget_bytes;
}

// Out of line: each call asks whether it is time for this.
[[gnu::noinline]] static void eager_or_full(Tensor &x) {
  Recorder &r = recorder();
  if (active_trace())
    return;
  if (r.config.eager) {
    Var var = read(x, "result");
    Value *value = var.value.get();
    submit({&value, 1}, {CutReason::kEager, Session::location()});
    wait_for(value, Session::location());
    return;
  }
  if (r.cutting)
    return;
  CutReason reason;
  if (has_many_ops(r))
    reason = CutReason::kOps;
  else if (has_many_bytes(r))
    reason = CutReason::kBytes;
  else
    return;
  llvm::SaveAndRestore cutting(r.cutting, true);
  cut(reason);
}

void after_call(Tensor &x) {
  const Recorder &r = recorder();
  if (r.config.eager || has_many_ops(r) || has_many_bytes(r))
    eager_or_full(x);
}

} // namespace weft::recorder
