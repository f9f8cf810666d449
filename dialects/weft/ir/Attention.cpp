#include "dialects/weft/ir/Attention.h"

#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/SmallestSize.h"
#include "dialects/weft/ir/Weft.h"

namespace weft::ir {

using namespace mlir;

bool isAttention(Operation *op) {
  return isa<AttentionOp, AttentionGradientOp>(op);
}

int64_t smallestMatrixCount(Operation *op) {
  Dims dims = dimsOf(op->getOperand(0));
  int64_t count = smallestSize(op, dims.front());
  for (const Dim &dim : ArrayRef(dims).drop_front().drop_back(2))
    count *= dim.size;
  return count;
}

Value maskOf(Operation *op) {
  if (auto attention = dyn_cast<AttentionOp>(op))
    return attention.getMask();
  return cast<AttentionGradientOp>(op).getMask();
}
Dim leadingDim(Operation *op) {
  Dims dims = dimsOf(op->getOperand(0));
  return dims.size() > 2 ? dims.front() : Dim(1);
}
Dim queryCount(Operation *op) {
  return dimsOf(op->getOperand(0)).end()[-2];
}
Dim keyCount(Operation *op) {
  return dimsOf(op->getOperand(1)).end()[-2];
}

bool variesInLength(Operation *op) {
  return !queryCount(op).isStatic();
}

StringRef whyNoLengths(Operation *op) {
  // Both ops begin with queries, keys and values.
  Value key = op->getOperand(1), value = op->getOperand(2), mask = maskOf(op);
  Dim leading = leadingDim(op), queries = queryCount(op), keys = keyCount(op);
  size_t rank = dimsOf(op->getOperand(0)).size();
  // Whether the last dims but these two, [..., penultimate, last], and the leading one have one
  // size each.
  auto only = [&](Value value, const Dim &penultimate, const Dim &last) {
    Dims dims = dimsOf(value);
    for (auto [i, dim] : llvm::enumerate(dims)) {
      size_t behind = dims.size() - i;
      if (!dim.isStatic() && dim != (behind == 1      ? last
                                     : behind == 2    ? penultimate
                                     : behind == rank ? leading
                                                      : Dim(1)))
        return false;
    }
    return true;
  };
  if (!leading.isStatic() && (leading == queries || leading == keys))
    return "has as many matrices as queries or keys, a number that varies";
  bool fits = only(op->getOperand(0), queries, 1) && only(key, keys, 1) && only(value, keys, 1) &&
              (!mask || only(mask, queries, keys));
  return fits ? "" : "has a size that varies and is no number of queries or keys";
}

} // namespace weft::ir
