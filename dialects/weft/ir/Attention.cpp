#include "dialects/weft/ir/Attention.h"

#include "dialects/weft/ir/SmallestSize.h"
#include "dialects/weft/ir/Weft.h"

namespace weft::ir {

bool isAttention(mlir::Operation *op) {
  return mlir::isa<AttentionOp, AttentionGradientOp>(op);
}

int64_t smallestMatrixCount(mlir::Operation *op) {
  Dims dims = dimsOf(mlir::cast<mlir::RankedTensorType>(op->getOperand(0).getType()));
  int64_t count = smallestSize(op, dims.front());
  for (const Dim &dim : llvm::ArrayRef(dims).drop_front().drop_back(2))
    count *= dim.size;
  return count;
}

} // namespace weft::ir
