// What storages held before they were written in place.
#include "frontend/recorder/record/state.h"
#include "frontend/tensor/impl.h"
#include "runtime/memory/buffer.h"

namespace weft::recorder {

Before::Before(Value *leaf, Cell::Keeper keeper)
    : value_(leaf), cell_(leaf->cell), keeper_(keeper) {
  UnderLock lock;
  if (cell_)
    ++cell_->keepers[keeper];
}

void Before::give_to(Cell::Keeper keeper) {
  UnderLock lock;
  if (!cell_ || keeper <= keeper_)
    return;
  --cell_->keepers[std::exchange(keeper_, keeper)];
  ++cell_->keepers[keeper];
  if (keeper != Cell::kRun)
    return;
  note_left(*value_);
  drop_unkept(cell_);
}

void Before::release() {
  UnderLock lock; // the thread of a run may be the last that knows its record
  give_to(Cell::kRun);
  if (!cell_)
    return;
  --cell_->keepers[keeper_];
  drop_unkept(cell_);
}

// A value that is overwritten by one that does not depend on indices from data (a state that is
// reset) is held up to this size, in case the program fails for another reason; a larger one would
// be memory that programs without a mistake pay for.
static constexpr int64_t kHeldBytes = 64 << 10;

static void unlink(TensorImpl &storage) {
  if (!storage.before)
    return;
  TensorImpl *next = std::exchange(storage.next_writer, nullptr),
             *previous = std::exchange(storage.previous_writer, nullptr);
  if (next)
    next->previous_writer = previous;
  if (previous)
    previous->next_writer = next;
  else if (Value *value = storage.var.value; value && value->writers == &storage)
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
  Value *old = storage.var.value;
  if (!storage.before && old && !old->node && !old->gone())
    storage.before = Before(old, Cell::kStorage);
  if (!storage.before)
    return;
  if (value->node->may_fail || value->node->lost || value->type->bytes <= kHeldBytes)
    storage.before.give_to(Cell::kHoldingStorage);
  storage.next_writer = value->writers;
  if (value->writers)
    value->writers->previous_writer = &storage;
  value->writers = &storage;
}

} // namespace weft::recorder
