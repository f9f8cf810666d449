#include "compiler/fusion/SplitSums.h"

#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Builders.h"

namespace weft::compiler {

using mlir::Operation;

// The dims behind what is kept, if what is folded beside them is the leading dim, which has a name:
// [s0, kept.., folded..]. Dims of size 1 do not count.
static llvm::SmallVector<int64_t> foldedBehind(Operation *op) {
  auto folded = op->getAttrOfType<mlir::DenseI64ArrayAttr>("dims");
  if (!folded) // argmax
    return {};
  llvm::ArrayRef<int64_t> along = folded.asArrayRef();
  ir::Dims dims = ir::dimsOf(mlir::cast<mlir::RankedTensorType>(op->getOperand(0).getType()));
  llvm::SmallVector<int64_t> behind;
  int64_t leading = -1;
  bool isKept = false;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    bool isFolded = llvm::is_contained(along, static_cast<int64_t>(i));
    if (dim.isOne())
      continue;
    if (leading < 0) {
      if (dim.isStatic() || !isFolded)
        return {};
      leading = static_cast<int64_t>(i);
    } else if (isFolded) {
      if (!isKept)
        return {};
      behind.push_back(static_cast<int64_t>(i));
    } else {
      if (!behind.empty())
        return {};
      isKept = true;
    }
  }
  return behind;
}

void splitSumsOverSizes(mlir::Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto weftOp = mlir::dyn_cast<ir::WeftOp>(op);
    // A mean is none of means: its count is of all.
    if (!weftOp || weftOp.kind() != ir::Kind::Reduction || mlir::isa<ir::ReduceMeanOp>(op))
      continue;
    llvm::SmallVector<int64_t> behind = foldedBehind(&op);
    if (behind.empty())
      continue;
    mlir::OpBuilder builder(&op);
    auto type = mlir::cast<mlir::RankedTensorType>(op.getOperand(0).getType());
    ir::Dims dims = ir::dimsOf(type), left;
    llvm::SmallVector<int64_t> rest;
    for (auto [i, dim] : llvm::enumerate(dims)) {
      auto at = static_cast<int64_t>(i);
      if (llvm::is_contained(behind, at))
        continue;
      if (llvm::is_contained(op.getAttrOfType<mlir::DenseI64ArrayAttr>("dims").asArrayRef(), at))
        rest.push_back(static_cast<int64_t>(left.size()));
      left.push_back(dim);
    }
    Operation *rows = builder.clone(op);
    rows->setAttr("dims", builder.getDenseI64ArrayAttr(behind));
    rows->getResult(0).setType(ir::tensorOf(left, type.getElementType()));
    op.setOperand(0, rows->getResult(0));
    op.setAttr("dims", builder.getDenseI64ArrayAttr(rest));
  }
}

} // namespace weft::compiler
