// The library entry "onednn.pack": out = rhs, in the form that calls of "onednn.matmul" with
// `packed_rhs` take it in.
//
// Operands: rhs [K, N] or transposed, f32, row-major; out, of the same dims and bytes, whose
// contents are the library's affair. Config: all of the products' own (matmul_entry.h), and
//
//   lhs, out    [int]: the dims of their lhs and out, both of rank 2
//
// The products and this call ask the same question of the library, by the same function, and so
// agree in the form. Where the library of the machine that runs the program has none, or one that
// takes more than the plain operand, out is a plain copy.
#pragma once

#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

const runtime::LibraryEntry &pack_entry();

} // namespace weft::backends::cpu
