// Bytes of a tensor, for what is decided by its size.
#pragma once

#include "dialects/weft/ir/Dims.h"
#include "mlir/IR/BuiltinTypes.h"

namespace weft::compiler {

// In floating point: a shape that no machine has memory for may have more bytes than an integer
// holds.
inline double tensorBytes(mlir::RankedTensorType type) {
  return double(type.getNumElements()) * ((type.getElementTypeBitWidth() + 7) / 8);
}
inline double tensorBytes(mlir::Value value) {
  return tensorBytes(ir::typeOf(value));
}

} // namespace weft::compiler
