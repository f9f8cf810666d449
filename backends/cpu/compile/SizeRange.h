// What a size that varies may be, for providers whose answer depends on it.
#pragma once

#include "dialects/weft/ir/Dims.h"
#include "mlir/IR/Operation.h"

namespace weft::backends::cpu {

// The library takes a problem at every size of a range or at none: which of the two it is decides the bits of the result. Compilation fails
// by this reason (compiler/claim/Claim.cpp).
inline constexpr char kSometimes[] = "sometimes-too-small";
inline constexpr char kSometimesTooSmall[] = "the library takes problems of larger sizes only, and the smallest of the range is none";

// The smallest number that a dim of a value of the op stands for: the module's weft.sizes says it of each name. -1 where it does not.
int64_t smallestSize(mlir::Operation *op, const ir::Dim &dim);

} // namespace weft::backends::cpu
