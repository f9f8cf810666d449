// Calls with bf16 operands on machines whose oneDNN computes none: a program that was compiled for
// another machine runs there all the same.
#pragma once

#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

// The call of the entry on f32 copies of its bf16 operands, which lie in scratch memory; a bf16
// result is rounded once.
absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>>
init_widened(const runtime::LibraryCall &call, const runtime::LibraryEntry &entry, int threads);

// Whether the call has bf16 operands.
bool has_narrow_operands(const runtime::LibraryCall &call);

} // namespace weft::backends::cpu
