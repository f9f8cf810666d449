// The library entry "weft.arg_sort": the indices of the elements along a dim in order
// (sort_rows.h). It calls no library: a sort is no loop nest over its operands, which is what
// kernels are.
#pragma once

#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

// Operands: x, of any dtype, and the indices, int64; row-major. Config: dim; descending, 1 or 0
// (default); first (default 0). The indices have x's dims, but perhaps fewer along dim: those at so
// many places of the order, from `first` on.
const runtime::LibraryEntry &sort_entry();

} // namespace weft::backends::cpu
