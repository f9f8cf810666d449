// What a size that varies is at the least, for those whose answer depends on it.
#pragma once

#include "dialects/weft/ir/Dims.h"
#include "mlir/IR/Operation.h"

namespace weft::ir {

// The smallest number that a dim of a value of the op stands for: the module's weft.sizes says it
// of each name. -1 where it does not.
int64_t smallestSize(mlir::Operation *op, const Dim &dim);

} // namespace weft::ir
