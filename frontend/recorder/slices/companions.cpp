// Which values a cut computes beside those that are asked for, so that a loop's iteration is one
// program and the same one each time.
#include "frontend/recorder/slices/slice.h"

namespace weft::recorder {
namespace {

// How far behind the slice's first op the search goes: a loop's iteration is well below the first;
// the second keeps a search in proportion to a slice that is compiled anyway. A cut of a few ops in
// a record of 400,000 must not read all of it.
constexpr size_t kSearchedOps = 4096;
constexpr size_t kSearchedOpsPerSliceOp = 4;

} // namespace

std::vector<Value *> companions(const Slice &slice, CutReason reason) {
  std::vector<Value *> found;
  Recorder &r = recorder();
  // Where several threads record, what is recorded may be another's, half of what that one is about
  // to ask for: with or without it, as it happens, each cut would be a program of its own.
  bool is_alone = r.mutex.is_reserved();
  if (reason == CutReason::kInit && thread_rank != 0)
    return found; // what other ranks have recorded is theirs
  auto take = [&](Node *node, bool advances) {
    node->epoch = r.epoch;
    for (Value *result : node->results)
      if (result && (result->handles > 0 || advances))
        found.push_back(result);
  };
  if (reason == CutReason::kInit && is_alone) {
    for (Node *node = r.first; node; node = node->next)
      if (node->is_open() && node->epoch != r.epoch)
        take(node, false);
    return found;
  }
  if (slice.nodes.empty())
    return found;
  bool consumers = reason == CutReason::kStep || reason == CutReason::kValue;
  bool ends_step = reason == CutReason::kStep;
  // A write that reads nothing of the slice may be another thread's, as may a draw that reads no
  // more of it than where the generator stands.
  auto is_shared = [&](const Value *operand) {
    return !is_alone && operand->node && is<ir::RandomAdvanceOp>(operand->node);
  };
  auto writes_state_of_step = [&](const Node *node) {
    return ends_step && node->rank == thread_rank && writes_state(node) &&
           (is_alone || llvm::any_of(node->operands, [&](const Value *operand) {
              return operand->epoch == r.epoch;
            }));
  };
  // What the last iteration has left, as a rule.
  size_t left = kSearchedOps;
  for (Node *node = r.first; ends_step && node != slice.nodes.front() && left > 0;
       node = node->next, --left)
    if (node->is_open() && writes_state_of_step(node))
      take(node, false);
  left = kSearchedOps + kSearchedOpsPerSliceOp * slice.nodes.size();
  for (Node *node = slice.nodes.front()->next; node && left > 0; node = node->next, --left) {
    if (!node->is_open() || node->epoch == r.epoch)
      continue;
    bool advances = is<ir::RandomAdvanceOp>(node);
    if (!consumers && !advances)
      continue;
    bool reads = llvm::any_of(node->operands, [&](const Value *operand) {
      if (!advances && is_shared(operand))
        return false;
      return (operand->epoch == r.epoch && (operand->node || advances)) ||
             (operand->node && operand->node->epoch == r.epoch);
    });
    if (reads || writes_state_of_step(node))
      take(node, advances);
  }
  return found;
}

} // namespace weft::recorder
