// What the derivatives and decompositions of linear algebra share.
#pragma once

#include "dialects/weft/rules/Composites.h"

namespace weft::ir {

enum class Triangle { Lower, StrictlyLower, Upper, StrictlyUpper };
// x [.., n, n] with zeros beside that triangle, NaN and infinities there included.
Val triangle(Val x, Triangle part);
// x [.., n, n] with half its diagonal.
Val halfDiagonal(Val x);
// x with its last two dims exchanged.
Val swapLast(Val x);

struct SolveOptions {
  bool upper = false, unit = false, transposed = false;
};
Val solveTriangular(Val matrix, Val rhs, SolveOptions options);

} // namespace weft::ir
