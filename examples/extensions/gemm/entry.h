// How Weft's runtime calls the library.
#pragma once

#include "runtime/executable/library_call.h"

namespace mine {

// "mine.gemm": a [m, k], b [k, n] -> c [m, n], in float32.
const weft::runtime::LibraryEntry &gemm_entry();

} // namespace mine
