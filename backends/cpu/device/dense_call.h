// Calls whose first operand lies in memory with gaps, of entries that take it better without.
#pragma once

#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

// The entry's state for the call with its first operand, a matrix, copied row behind row into
// scratch memory before each run.
absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>>
init_dense(runtime::LibraryCall call, const runtime::LibraryEntry &entry, int threads);

} // namespace weft::backends::cpu
