// The library entries "weft.factor.cholesky", "weft.factor.lu" and "weft.factor.solve"
// (factors.h). They call no library.
#pragma once

#include <span>

#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

// Operands, float32 or float64 and row-major. cholesky: x and L. lu: x, the factors, and the
// permutation, int64; config: regular, 1 or 0 (default), whether a column without a pivot is an
// error. solve: matrix, right side and x; config: upper, unit and transposed, 1 or 0 (default).
std::span<const runtime::LibraryEntry *const> factor_entries();

} // namespace weft::backends::cpu
