// Which leaves of a slice are stable: the same as when they were last used, and worth a program
// that counts on it.
#pragma once

#include "frontend/recorder/slices/slice.h"

namespace weft::recorder {

// Marks stable leaves in the slice: those whose contents have not changed since their last use as a
// leaf, which the slice does not write, and from which one of its ops profits (a matrix that the
// backend packs, work that depends on such leaves only). Which program serves it, ProgramCache
// says.
void mark_stable(Slice &slice);
// As above for a function that is replayed: `same` says of each leaf whether it is a storage that
// the function reads and does not write. They are stable at once, as whoever replays a function
// uses them again.
void mark_stable_replayed(Slice &slice, const llvm::BitVector &same);

} // namespace weft::recorder
