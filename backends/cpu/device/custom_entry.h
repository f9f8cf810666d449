// Kernels of users (runtime/custom) as the library entry "weft.custom".
#pragma once

#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

// Config: kernel (a name), ints, scalar_bits (the bits of doubles). Operands are row-major.
// NotFound for a kernel that is not registered.
const runtime::LibraryEntry &custom_entry();

} // namespace weft::backends::cpu
