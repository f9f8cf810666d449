// What a failed run should have written in place goes back to what it was (docs/memory.md).
//
// A storage that is written in place remembers the value that it held last in memory (Before),
// without keeping it from being donated; a run that may end at a check, or at a user's kernel,
// takes these over (EvaluationRecord::undo) and holds the memory until it has succeeded, which is
// not longer than the run itself does. Programs write what they keep only after the last check, so
// that the memory of a run that ended at one, or did not start because an earlier one had, still
// holds the old values. Whoever meets the error first puts them back, under all the runs that were
// submitted since, and is told; what was recorded from results that are lost goes back as well. Of
// other failures among these runs, whoever next reads what went back is told.
//
// Whatever other threads submit meanwhile, what a storage may go back to stays what it is:
// - no program is given memory that a storage which it does not write, or a run that may still
//   fail, would go back to (kept_leaves());
// - where a value goes back, so does whatever was to go back to that value.
#pragma once

#include "absl/status/status.h"
#include "frontend/recorder/runs/evaluation.h"
#include "frontend/recorder/slices/slice.h"

namespace weft::recorder {

// Which of the leaves that the slice would give to its program must stay as they are: a storage may
// go back to them whose next value is none of the slice's outputs, as after a cut in the middle of
// several writes, or a run may that can still fail. Asked again after the lock was given up: other
// threads may have written storages meanwhile, or have gone back.
llvm::SmallVector<size_t> kept_leaves(const Slice &slice);
// Whether the memory is such for a caller that writes it for no recorded op.
bool is_kept(const Cell &cell);

// Fills the record's `undo` for the storages behind the slice's outputs, where the run may fail;
// before the launch, when everything is bound.
void prepare_undo(const Slice &slice, EvaluationRecord &record);
// For one storage of a program that is replayed: what it holds now.
void prepare_undo(TensorImpl &storage, EvaluationRecord &record);
// After the launch, when the outputs have their cells: the storages' values are in memory, or will
// be. roots: how many further handles refer to an output while it is evaluated.
void settle_writes(const Slice &slice, std::span<Value *const> roots,
                   const std::shared_ptr<EvaluationRecord> &record);
// For one storage of a replayed program: the value that it gets, in the memory of `computed`. It is
// the storage's own, since it goes back where results do not. undo: the storage's.
ValueRef settle_write(Value *computed, Undo &undo);
// Whether a run that reads the leaf may be skipped.
bool is_unsettled(const Value *leaf);
// Remembers a record with something to undo, and forgets those whose runs have succeeded.
void keep_unsettled(const std::shared_ptr<EvaluationRecord> &record);

// The error of a leaf whose run has failed, after everything went back that can, for which the
// recorder's lock is given up: what the caller refers to must be held by handles. OK for any other
// leaf, one whose run is under way included.
absl::Status loss_of(Value *leaf);

// Raises that error.
void check_leaf(Value *leaf, Location location);
// The slice that met such an error is not going to be computed: what it would have written in place
// goes back too. all: it was told of the error for the first time, so that the call that asked for
// it has failed; else what reads something lost.
void drop_writes(const Slice &slice, bool all);

} // namespace weft::recorder
