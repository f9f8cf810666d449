// What the statements of records share.
#pragma once

#include "dialects/weft/statements/Statement.h"

namespace weft::ir {

// The name of dim number i: a letter.
llvm::StringRef letterOf(size_t i);
// The size of a tensor's dim: a number where it has one, also beside a name.
Dim sizeOf(mlir::Type type, int64_t dim);
// The positions of a tensor whose dims align at the end with `to`, as in numpy: dims of size 1 do
// not move.
Positions broadcastPositions(mlir::Type from, llvm::ArrayRef<Position> to,
                             llvm::ArrayRef<IndexDim> dims);

} // namespace weft::ir
