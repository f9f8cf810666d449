#include "frontend/recorder/runs/undo.h"

#include "frontend/recorder/runs/executors.h"
#include "frontend/tensor/impl.h"
#include "runtime/executable/run_failure.h"
#include "runtime/memory/buffer.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace weft::recorder {

//===-- Runs ----------------------------------------------------------------------------------===//

bool is_lost(const Value *leaf) {
  return leaf->evaluation && !leaf->evaluation->loss.ok();
}

bool is_unsettled(const Value *leaf) {
  return leaf->evaluation && leaf->evaluation->may_fail &&
         leaf->evaluation->state() != RunState::kDone;
}

void prepare_undo(const Slice &slice, EvaluationRecord &record) {
  if (!record.may_fail)
    return;
  for (Value *output : slice.outputs)
    for (TensorImpl *storage = output->writers; storage; storage = storage->next_writer) {
      Cell *cell = storage->before.cell();
      record.undo.emplace_back().memory = cell ? cell->buffer : nullptr;
    }
}

void prepare_undo(TensorImpl &storage, EvaluationRecord &record) {
  Value *old = storage.var.value;
  Undo &undo = record.undo.emplace_back();
  undo.before = Before(old, Cell::kRun);
  if (old->cell)
    undo.memory = old->cell->buffer;
}

ValueRef settle_write(Value *computed, Undo &undo) {
  ValueRef own(new Value(computed->type));
  own->cell = computed->cell;
  ++own->cell->owners;
  own->evaluation = computed->evaluation;
  undo.now = own.get();
  return own;
}

void settle_writes(const Slice &slice, std::span<Value *const> roots,
                   const std::shared_ptr<EvaluationRecord> &record) {
  if (!slice.writes())
    return;
  llvm::DenseMap<Value *, uint32_t> asked;
  for (Value *root : roots)
    ++asked[root];
  size_t next = 0;
  for (Value *output : slice.outputs) {
    // While it is claimed an output has one handle more (Claim).
    bool sole = output->writers && !output->writers->next_writer &&
                output->handles == 2 + asked.lookup(output);
    while (TensorImpl *storage = output->writers) {
      Before before = std::exchange(storage->before, {});
      output->writers = std::exchange(storage->next_writer, nullptr);
      if (output->writers)
        output->writers->previous_writer = nullptr;
      if (!record->may_fail)
        continue;
      Undo &undo = record->undo[next++];
      before.give_to(Cell::kRun);
      undo.before = std::move(before);
      // Of a value that others hold too, only the storage goes back.
      if (!sole) {
        storage->var.value = settle_write(output, undo);
        continue;
      }
      undo.now = output;
    }
  }
}

static void forget_settled() {
  std::erase_if(recorder().unsettled_runs, [](const std::shared_ptr<EvaluationRecord> &each) {
    if (each->state() == RunState::kDone)
      each->undo.clear();
    // What nobody can read again, not even by going back to it, need not go back.
    else if (each->failed())
      std::erase_if(each->undo,
                    [](const Undo &undo) { return undo.now->gone() && undo.now->weak == 1; });
    return each->undo.empty();
  });
}

void keep_unsettled(const std::shared_ptr<EvaluationRecord> &record) {
  forget_settled();
  if (record->may_fail && !record->undo.empty())
    recorder().unsettled_runs.push_back(record);
}

//===-- Memory that is gone back to -----------------------------------------------------------===//

// written: of the storages that would go back to it, how many whose undo a run is about to take
// over.
static bool is_kept(const Cell &cell, uint32_t written) {
  return cell.keepers[Cell::kRun] > 0 ||
         (cell.keepers[Cell::kHoldingStorage] > 0 && cell.keeping_storages() > written);
}

bool is_kept(const Cell &cell) {
  if (cell.keepers[Cell::kRun] > 0)
    forget_settled();
  return is_kept(cell, 0);
}

llvm::SmallVector<size_t> kept_leaves(const Slice &slice) {
  llvm::SmallVector<size_t> asked, found;
  for (size_t i = 0; i < slice.leaves.size(); ++i) {
    const Value &leaf = *slice.leaves[i];
    if (!slice.key.leaves[i].donatable)
      continue;
    if (leaf.handles > 0 || leaf.uses != leaf.slice_uses || leaf.cell->owners > 1)
      found.push_back(i); // a storage is that value again
    else if (leaf.cell->has_keepers())
      asked.push_back(i);
  }
  if (asked.empty())
    return found;
  forget_settled();
  llvm::SmallDenseMap<const Cell *, uint32_t, 32> written;
  for (const Value *output : slice.outputs)
    for (const TensorImpl *storage = output->writers; storage; storage = storage->next_writer)
      if (const Cell *cell = storage->before.cell())
        ++written[cell];
  for (size_t i : asked) {
    const Cell &cell = *slice.leaves[i]->cell;
    if (is_kept(cell, written.lookup(&cell)))
      found.push_back(i);
  }
  return found;
}

//===-- Going back ----------------------------------------------------------------------------===//

namespace {

// The buffer's last write did not happen. Its run has ended, but its event may be about to: a
// record ends first. Other runs that are under way on the buffer read what is lost, and are
// skipped.
void clear_error(const std::shared_ptr<runtime::Buffer> &buffer) {
  if (buffer->is_written() && buffer->error().ok())
    return;
  auto unwritten = std::make_shared<runtime::Event>();
  unwritten->complete(absl::OkStatus());
  buffer->begin_write(std::move(unwritten));
}

// Gives the value this cell, or none where it is a scalar. The value may be gone.
void revive(Value *value, Cell *cell) {
  if (value->gone())
    value->withdrawn = false;
  if (cell)
    ++cell->owners;
  if (Cell *old = std::exchange(value->cell, cell))
    release_cell(old);
  value->is_scalar = !cell;
}

// being_written: buffers that a run writes which is still under way. It is skipped, and its error
// is what takes it back in its turn.
void put_back(Value *value, const Undo &undo,
              const llvm::SmallPtrSetImpl<const runtime::Buffer *> &being_written) {
  const Before &before = undo.before;
  Cell *cell = before.cell();
  if (cell) {
    if (!cell->buffer)
      cell->buffer = undo.memory;
    if (!being_written.contains(cell->buffer.get()))
      clear_error(cell->buffer);
  } else {
    value->bits = before.value()->bits;
  }
  revive(value, cell);
  value->evaluation = nullptr;
}

// What a run that was skipped has failed of.
absl::Status error_of_results(const EvaluationRecord &record) {
  for (const Undo &undo : record.undo)
    if (const Cell *cell = undo.now->cell; cell && cell->buffer && !cell->buffer->error().ok())
      return cell->buffer->error();
  return absl::OkStatus();
}

// Failures that callers are about to be told of, each by its own going back.
std::vector<absl::Status> &being_told() {
  static auto *failures = new std::vector<absl::Status>;
  return *failures;
}

// Of each thread whose runs failed and go back, what its storages' values remember of it: whoever
// computes with them is told, if nobody has been. A thread's failures are one: the step that it
// made and the loss that it reads then may be two runs, which fail of one index.
class Missed {
public:
  // Null where somebody was told. Runs that were skipped stand behind the one that failed.
  const std::shared_ptr<EvaluationRecord> &of(EvaluationRecord &record) {
    auto is_it = [&](const absl::Status &other) {
      return runtime::are_of_one_thread(other, record.loss);
    };
    auto known =
        llvm::find_if(failures_, [&](const Failure &each) { return is_it(each.notice->failure); });
    if (known == failures_.end()) {
      bool heard = record.told || llvm::any_of(being_told(), is_it);
      failures_.push_back(
          {std::make_shared<EvaluationRecord::Notice>(record.loss, heard), nullptr});
      known = std::prev(failures_.end());
      if (!heard) {
        known->left = std::make_shared<EvaluationRecord>();
        known->left->finish(EvaluationRecord::Clock::now(), absl::OkStatus(), {});
        known->left->notice = known->notice;
      }
    }
    record.notice = known->notice;
    return known->left;
  }

private:
  struct Failure {
    std::shared_ptr<EvaluationRecord::Notice> notice;
    std::shared_ptr<EvaluationRecord> left;
  };
  std::vector<Failure> failures_;
};

// What was to go back to a value that went back itself.
void follow(Before &before) {
  before = Before(before.value(), Cell::kHoldingStorage);
}

} // namespace

// A storage whose recorded value can no longer be computed.
void take_back_write(TensorImpl &storage) {
  Value *old = storage.before.value();
  Cell *cell = storage.before.cell();
  bool is_there = old && !is_lost(old) && !(old->gone() && cell && !cell->buffer);
  // The value itself, not one like it: a run that should have written it may be under way.
  if (is_there && old->gone())
    revive(old, cell);
  ValueRef value(is_there ? old : nullptr);
  forget_write(storage);
  if (!is_there)
    return; // nobody has kept it
  storage.var.value = std::move(value);
  ++storage.version;
}

void take_back_write(TensorImpl &storage, Value *pending) {
  bool is_there = pending && !pending->gone() && !pending->withdrawn && !is_lost(pending) &&
                  !(pending->node && pending->node->lost);
  if (!is_there)
    return take_back_write(storage);
  ValueRef value(pending);
  note_write(storage, pending);
  storage.var.value = std::move(value);
  ++storage.version;
}

static void put_back_writers(Value *value) {
  while (TensorImpl *storage = value->writers)
    take_back_write(*storage);
}

void drop_writes(const Slice &slice, bool all) {
  std::vector<ValueRef> held(slice.outputs.begin(),
                             slice.outputs.end()); // a value may go with its last storage
  for (const ValueRef &output : held)
    if (output->node && (all || output->node->lost))
      put_back_writers(output);
}

// told: the failure that the caller will raise. Others may go back with it while this one waits.
static void go_back(const absl::Status &told) {
  Recorder &r = recorder();
  being_told().push_back(told);
  llvm::scope_exit is_told([&] { being_told().erase(llvm::find(being_told(), told)); });
  {
    RecorderMutex::Pause pause(r.mutex);
    drain();
  }
  auto unsettled = std::exchange(r.unsettled_runs, {});
  llvm::MapVector<Value *, const Undo *>
      targets;        // of what the runs should have written; null where it is lost
  llvm::DenseMap<Value *, std::shared_ptr<EvaluationRecord>> missed; // of them
  Missed all_missed;
  absl::Status first; // of a run that was skipped, and of which nothing else is known
  // Runs may be under way still: one that waits for another rank, and what other threads have
  // submitted since they were waited for. A run that has ended, but goes back to what such a one
  // computes, waits for its end as well.
  llvm::SmallPtrSet<const EvaluationRecord *, 8> open;
  auto is_open = [&](const Undo &undo) {
    const EvaluationRecord *record = undo.before.value()->evaluation.get();
    return record && (open.contains(record) || record->state() == RunState::kUnderWay);
  };
  for (const std::shared_ptr<EvaluationRecord> &record : unsettled) {
    RunState state = record->state();
    if (state == RunState::kDone)
      continue;
    if (state == RunState::kUnderWay || llvm::any_of(record->undo, is_open)) {
      open.insert(record.get());
      continue;
    }
    record->loss = state == RunState::kSkipped ? error_of_results(*record) : record->failure();
    if (first.ok())
      first = record->loss;
    if (record->loss.ok())
      record->loss = first;
    if (record->loss.ok())
      record->loss = absl::InternalError("a program whose results it reads failed");
    for (const Undo &undo : record->undo) {
      const Undo *target = &undo;
      const Value *before = undo.before.value();
      const Cell *cell = undo.before.cell();
      if (auto earlier = targets.find(undo.before.value()); earlier != targets.end())
        target = earlier->second;
      else if ((before->evaluation && before->evaluation->failed()) ||
               (cell && !cell->buffer && !undo.memory))
        target = nullptr;
      if (state == RunState::kFailedLate)
        target = nullptr;
      targets[undo.now] = target;
      missed[undo.now] = all_missed.of(*record);
    }
  }
  llvm::SmallPtrSet<const runtime::Buffer *, 8> being_written;
  for (const EvaluationRecord *record : open)
    for (const Undo &undo : record->undo)
      if (const Cell *cell = undo.now->cell)
        being_written.insert(cell->buffer.get());
  std::vector<ValueRef> held; // until what was to go back to them has followed
  for (auto [value, undo] : targets)
    if (undo) {
      put_back(value, *undo, being_written);
      value->evaluation = missed.lookup(value);
      held.emplace_back(value);
    }
  auto went_back = [&](const Before &before) {
    auto found = before ? targets.find(before.value()) : targets.end();
    return found != targets.end() && found->second;
  };
  // Recorded ops that read what stays lost.
  std::vector<ValueRef> lost;
  for (Node *node = r.first; node; node = node->next) {
    node->lost = false;
    for (Value *operand : node->operands)
      node->lost = node->lost || (operand->node ? operand->node->lost : is_lost(operand));
    for (Value *result : node->results) {
      if (!result || !result->writers)
        continue;
      for (TensorImpl *storage = result->writers; storage; storage = storage->next_writer)
        if (went_back(storage->before))
          follow(storage->before);
      if (node->lost && !node->claimed)
        lost.emplace_back(result);
    }
  }
  for (std::shared_ptr<EvaluationRecord> &record : unsettled) {
    if (!open.contains(record.get())) {
      record->undo.clear();
      continue;
    }
    for (Undo &undo : record->undo)
      if (went_back(undo.before))
        follow(undo.before);
    r.unsettled_runs.push_back(std::move(record));
  }
  for (const ValueRef &value : lost)
    put_back_writers(value); // afterwards: a node goes with its last value
}

absl::Status loss_of(Value *leaf) {
  EvaluationRecord *record = leaf->evaluation.get();
  if (record && record->notice && !record->failed() && !std::exchange(record->notice->heard, true))
    return record->notice->failure;
  if (leaf->is_scalar || !leaf->cell || !leaf->cell->buffer)
    return absl::OkStatus();
  // Its memory may be another value's by now.
  if (record && !record->loss.ok()) {
    if (record->notice)
      record->notice->heard = true;
    return record->loss;
  }
  if (record && !record->failed())
    return absl::OkStatus();
  absl::Status status = leaf->cell->buffer->error();
  if (status.ok())
    return status;
  // Not all that failed is among the unsettled: there may be nothing to undo, or no check of an
  // index may end it. Of those that are, going back decides.
  if (record && !llvm::is_contained(recorder().unsettled_runs, leaf->evaluation))
    record->loss = status;
  go_back(status); // after which the record may be gone
  return status;
}

} // namespace weft::recorder
