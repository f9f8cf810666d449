#include "dialects/weft/ir/Attention.h"

#include "dialects/weft/ir/SizeNames.h"
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

static Dims dimsOf(mlir::Value value) {
  return dimsOf(mlir::cast<mlir::RankedTensorType>(value.getType()));
}

Dim queryCount(mlir::Operation *op) {
  return dimsOf(op->getOperand(0)).end()[-2];
}
Dim keyCount(mlir::Operation *op) {
  return dimsOf(op->getOperand(1)).end()[-2];
}

bool variesInLength(mlir::Operation *op) {
  return !queryCount(op).isStatic();
}

llvm::StringRef whyNoLengths(mlir::Operation *op) {
  mlir::Value key, value, mask;
  if (auto attention = mlir::dyn_cast<AttentionOp>(op))
    key = attention.getKey(), value = attention.getValue(), mask = attention.getMask();
  else if (auto gradient = mlir::dyn_cast<AttentionGradientOp>(op))
    key = gradient.getKey(), value = gradient.getValue(), mask = gradient.getMask();
  Dim queries = queryCount(op), keys = keyCount(op);
  // Whether the last dims but these two, [..., penultimate, last], have one size each.
  auto only = [&](mlir::Value value, const Dim &penultimate, const Dim &last) {
    Dims dims = dimsOf(value);
    for (auto [i, dim] : llvm::enumerate(dims))
      if (!dim.isStatic() && dim != (dims.size() - i == 1   ? last
                                     : dims.size() - i == 2 ? penultimate
                                                            : Dim(1)))
        return false;
    return true;
  };
  bool fits = only(op->getOperand(0), queries, 1) && only(key, keys, 1) && only(value, keys, 1) &&
              (!mask || only(mask, queries, keys));
  return fits ? "" : "has a size that varies and is no number of queries or keys";
}

} // namespace weft::ir
