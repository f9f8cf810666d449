#include "frontend/recorder/undo.h"

#include "frontend/recorder/launcher.h"
#include "frontend/tensor/impl.h"
#include "runtime/memory/buffer.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"

namespace weft::recorder {

//===-- Before --------------------------------------------------------------------------------===//

Before::Before(Value *leaf, bool hold) : value_(leaf), cell_(leaf->cell), wanted_(true) {
  UnderLock lock;
  ++value_->weak;
  if (!cell_)
    return;
  ++cell_->kept;
  ++cell_->wanted;
  if (hold)
    this->hold();
}

void Before::hold() {
  if (held_ || !cell_)
    return;
  UnderLock lock;
  held_ = true;
  ++cell_->held;
}

void Before::hand_over() {
  if (!wanted_)
    return;
  UnderLock lock;
  wanted_ = false;
  if (!cell_)
    return;
  --cell_->wanted;
  note_left(*value_);
  if (!held_)
    return;
  held_ = false; // the run holds the memory itself
  if (--cell_->held == 0 && cell_->owners == 0)
    cell_->buffer.reset();
}

void Before::release() {
  UnderLock lock; // the thread of a run may be the last that knows its record
  hand_over();
  if (cell_ && --cell_->kept == 0 && cell_->owners == 0)
    delete cell_;
  release_weak(value_);
}

uint64_t Before::bits() const {
  return value_->bits;
}

Undo::~Undo() {
  if (now)
    release_weak(now);
}

// A value that is overwritten by one that does not depend on indices from data (a state that is
// reset) is held up to this size, in case the program fails for another reason; a larger one would
// be memory that programs without a mistake pay for.
static constexpr int64_t kHeldBytes = 64 << 10;

//===-- Writes --------------------------------------------------------------------------------===//

static void unlink(TensorImpl &storage) {
  if (!storage.before)
    return;
  TensorImpl *next = std::exchange(storage.next_writer, nullptr),
             *previous = std::exchange(storage.previous_writer, nullptr);
  if (next)
    next->previous_writer = previous;
  if (previous)
    previous->next_writer = next;
  else if (Value *value = storage.var.value.get(); value && value->writers == &storage)
    value->writers = next;
}

void forget_write(TensorImpl &storage) {
  unlink(storage);
  storage.before = Before();
}

void note_write(TensorImpl &storage, Value *value) {
  unlink(storage);
  if (!value->node) {
    storage.before = Before();
    return;
  }
  Value *old = storage.var.value.get();
  if (!storage.before && old && !old->node && !old->gone())
    storage.before = Before(old, false);
  if (!storage.before)
    return;
  if (value->node->may_fail || value->node->lost || value->type->bytes <= kHeldBytes)
    storage.before.hold();
  storage.next_writer = value->writers;
  if (value->writers)
    value->writers->previous_writer = &storage;
  value->writers = &storage;
}

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
  Value *old = storage.var.value.get();
  Undo &undo = record.undo.emplace_back();
  undo.before = Before(old, false);
  undo.before.hand_over();
  if (old->cell)
    undo.memory = old->cell->buffer;
}

ValueRef settle_write(Value *computed, Undo &undo) {
  ValueRef own(new Value(computed->type));
  own->cell = computed->cell;
  ++own->cell->owners;
  own->evaluation = computed->evaluation;
  undo.now = own.get();
  ++own->weak;
  return own;
}

void settle_writes(const Slice &slice, std::span<Value *const> roots,
                   const std::shared_ptr<EvaluationRecord> &record) {
  if (llvm::none_of(slice.outputs, [](const Value *output) { return output->writers; }))
    return;
  llvm::DenseMap<Value *, uint32_t> asked;
  for (Value *root : roots)
    ++asked[root];
  size_t next = 0;
  for (Value *output : slice.outputs) {
    // While it is claimed an output has one handle more (claim()).
    bool sole = output->writers && !output->writers->next_writer &&
                output->handles == 2 + asked.lookup(output);
    while (TensorImpl *storage = output->writers) {
      Before before = std::move(storage->before);
      storage->before = Before();
      output->writers = std::exchange(storage->next_writer, nullptr);
      if (output->writers)
        output->writers->previous_writer = nullptr;
      if (!record->may_fail)
        continue;
      Undo &undo = record->undo[next++];
      before.hand_over();
      undo.before = std::move(before);
      // Of a value that others hold too, only the storage goes back.
      if (!sole) {
        storage->var.value = settle_write(output, undo);
        continue;
      }
      undo.now = output;
      ++output->weak;
    }
  }
}

void keep_unsettled(const std::shared_ptr<EvaluationRecord> &record) {
  std::deque<std::shared_ptr<EvaluationRecord>> &unsettled = recorder().unsettled;
  std::erase_if(unsettled, [](const std::shared_ptr<EvaluationRecord> &each) {
    if (each->state() == RunState::kDone)
      each->undo.clear();
    // What nobody can read again, not even by going back to it, need not go back.
    else if (each->failed())
      std::erase_if(each->undo,
                    [](const Undo &undo) { return undo.now->gone() && undo.now->weak == 1; });
    return each->undo.empty();
  });
  if (record->may_fail && !record->undo.empty())
    unsettled.push_back(record);
}

//===-- Going back ----------------------------------------------------------------------------===//

namespace {

// Nothing is under way on the buffer: its last write did not happen.
void clear_error(const std::shared_ptr<runtime::Buffer> &buffer) {
  if (buffer->error().ok())
    return;
  auto unwritten = std::make_shared<runtime::Event>();
  unwritten->complete(absl::OkStatus());
  buffer->begin_write(std::move(unwritten));
}

void put_back(Value *value, const Undo &undo) {
  const Before &before = undo.before;
  if (Cell *cell = before.cell()) {
    if (!cell->buffer)
      cell->buffer = undo.memory;
    clear_error(cell->buffer);
    ++cell->owners;
    release_cell(std::exchange(value->cell, cell));
  } else {
    release_cell(std::exchange(value->cell, nullptr));
    value->is_scalar = true;
    value->bits = before.bits();
  }
  value->evaluation = nullptr;
}

// A storage whose recorded value can no longer be computed.
void put_back(TensorImpl &storage) {
  Value *old = storage.before.value();
  Cell *cell = storage.before.cell();
  if (is_lost(old) || (old->gone() && cell && !cell->buffer))
    return; // nobody has kept it
  if (old->gone()) {
    auto *revived = new Value(old->type);
    revived->cell = cell;
    revived->is_scalar = !cell;
    revived->bits = old->bits;
    if (cell)
      ++cell->owners;
    revived->evaluation = old->evaluation;
    old = revived;
  }
  ValueRef value(old);
  forget_write(storage);
  storage.var.value = std::move(value);
  ++storage.version;
}

} // namespace

void take_back_write(TensorImpl &storage) {
  if (!storage.before)
    return;
  put_back(storage);
  forget_write(storage);
}

static void put_back_writers(Value *value) {
  while (TensorImpl *storage = value->writers) {
    put_back(*storage);
    if (value->writers == storage)
      forget_write(*storage);
  }
}

void drop_writes(const Slice &slice, bool all) {
  std::vector<ValueRef> held(slice.outputs.begin(),
                             slice.outputs.end()); // a value may go with its last storage
  for (const ValueRef &output : held)
    if (output->node && (all || output->node->lost))
      put_back_writers(output.get());
}

static void go_back() {
  Recorder &r = recorder();
  {
    RecorderMutex::Pause pause(r.mutex);
    drain();
  }
  auto unsettled = std::exchange(r.unsettled, {});
  llvm::MapVector<Value *, const Undo *>
      targets;        // of what the runs should have written; null where it is lost
  absl::Status first; // later ones are skipped since it failed
  for (const std::shared_ptr<EvaluationRecord> &record : unsettled) {
    if (!record->failed())
      continue;
    record->loss = record->failure();
    if (first.ok())
      first = record->loss;
    if (record->state() == RunState::kSkipped)
      record->loss = first;
    if (record->loss.ok())
      record->loss = absl::InternalError("a program whose results it reads failed");
    for (const Undo &undo : record->undo) {
      const Undo *target = &undo;
      const Cell *cell = undo.before.cell();
      if (auto earlier = targets.find(undo.before.value()); earlier != targets.end())
        target = earlier->second;
      else if (is_lost(undo.before.value()) || (cell && !cell->buffer && !undo.memory))
        target = nullptr;
      if (record->state() == RunState::kFailedLate)
        target = nullptr;
      targets[undo.now] = target;
    }
  }
  for (auto [value, undo] : targets)
    if (undo && !value->gone())
      put_back(value, *undo);
  // A run that waits for another rank may be under way still.
  for (std::shared_ptr<EvaluationRecord> &record : unsettled)
    if (record->state() == RunState::kUnderWay)
      r.unsettled.push_back(std::move(record));
    else
      record->undo.clear();
  // Recorded ops that read what stays lost.
  std::vector<ValueRef> lost;
  for (Node *node = r.first; node; node = node->next) {
    node->lost = false;
    for (Value *operand : node->operands)
      node->lost = node->lost || (operand->node ? operand->node->lost : is_lost(operand));
    if (!node->lost || node->claimed)
      continue;
    for (Value *result : node->results)
      if (result && result->writers)
        lost.emplace_back(result);
  }
  for (const ValueRef &value : lost)
    put_back_writers(value.get()); // afterwards: a node goes with its last value
}

absl::Status loss_of(Value *leaf) {
  if (leaf->is_scalar || !leaf->cell || !leaf->cell->buffer)
    return absl::OkStatus();
  EvaluationRecord *record = leaf->evaluation.get();
  // Its memory may be another value's by now.
  if (record && !record->loss.ok())
    return record->loss;
  if (record && !record->failed())
    return absl::OkStatus();
  absl::Status status = leaf->cell->buffer->error();
  if (status.ok())
    return status;
  // Not all that failed is among the unsettled: there may be nothing to undo, or no check of an
  // index may end it.
  if (record)
    record->loss = status;
  go_back(); // after which the record may be gone
  return status;
}

} // namespace weft::recorder
