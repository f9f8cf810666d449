// What a size that varies may be, for providers whose answer depends on it.
#pragma once

#include "dialects/weft/ir/Dims.h"
#include "mlir/IR/Operation.h"

namespace weft::backends::cpu {

// What compiler::SometimesMine says.
inline constexpr char kSometimesTooSmall[] =
    "the library takes problems of larger sizes only, and the smallest of the range is none";

// The smallest number that a dim of a value of the op stands for: the module's weft.sizes says it
// of each name. -1 where it does not.
int64_t smallestSize(mlir::Operation *op, const ir::Dim &dim);

} // namespace weft::backends::cpu
