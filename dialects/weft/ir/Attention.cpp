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
  // Whether at most this dim varies, counted from the last, and is this number.
  auto only = [&](mlir::Value value, const Dim &count, size_t place) {
    Dims dims = dimsOf(value);
    for (auto [i, dim] : llvm::enumerate(dims))
      if (!dim.isStatic() && (dim != count || dims.size() - i != place))
        return false;
    return true;
  };
  if (!only(op->getOperand(0), queries, 2) || !only(key, keys, 2) || !only(value, keys, 2) ||
      hasNamedDims(key.getType()) != hasNamedDims(value.getType()))
    return "has a size that varies and is no number of queries or keys";
  if (mask && !only(mask, queries, 2) && !only(mask, keys, 1))
    return "has a mask with a row for each query and a column for each key, both of which vary";
  return {};
}

} // namespace weft::ir
