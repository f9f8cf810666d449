// What claims of products take in of 16-bit numbers, which weft-widen makes float32 ones between
// conversions.
#pragma once

#include "compiler/claim/Provider.h"
#include "dialects/weft/ir/Weft.h"

namespace weft::backends::cuda {

inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

// Whether it makes float32 of 16-bit numbers.
bool isWidening(ir::CastOp cast);
// The rounding of a result to that type which is its only use; null for none.
ir::CastOp roundingOf(mlir::Value result, mlir::Type narrow);
// The claim's ops with those, each once, in the order of their block.
void takeIn(compiler::Claim &claim, llvm::ArrayRef<mlir::Operation *> ops);

} // namespace weft::backends::cuda
