// The element type in which an op adds up, multiplies or compares many elements to give one.
#pragma once

#include "mlir/IR/Operation.h"
#include "mlir/IR/Types.h"

namespace weft::ir {

// Where it is another than that of the op's operands, and of its results if these are no indices,
// else null: float32 for bf16 and f16, which are rounded once at the end; int32 for uint8, which
// changes nothing (sums wrap alike) and spares kernels an unsigned accumulator. Composites other
// than convolutions widen in their decompositions.
mlir::Type accumulationType(mlir::Operation *op);

} // namespace weft::ir
