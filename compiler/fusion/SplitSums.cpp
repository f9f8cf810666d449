#include "compiler/fusion/SplitSums.h"

#include <utility>

#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Builders.h"

namespace weft::compiler {

using namespace mlir;

// Of the folded dims those behind what is kept, if the others are the leading dim, which has a
// name: [s0, kept.., folded..]. Dims of size 1 do not count.
static SmallVector<int64_t> foldedBehind(const ir::Dims &dims, ArrayRef<int64_t> folded) {
  SmallVector<int64_t> behind;
  bool isLeading = true, isKept = false;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (dim.isOne())
      continue;
    bool isFolded = llvm::is_contained(folded, static_cast<int64_t>(i));
    if (std::exchange(isLeading, false)) {
      if (dim.isStatic() || !isFolded)
        return {};
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

void splitSumsOverSizes(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto weftOp = dyn_cast<ir::WeftOp>(op);
    auto folded = op.getAttrOfType<DenseI64ArrayAttr>("dims"); // null of argmax
    // A mean is none of means: its count is of all.
    if (!weftOp || weftOp.kind() != ir::Kind::Reduction || !folded || isa<ir::ReduceMeanOp>(op))
      continue;
    auto type = ir::typeOf(op.getOperand(0));
    ir::Dims dims = ir::dimsOf(type), left;
    SmallVector<int64_t> behind = foldedBehind(dims, folded), rest;
    if (behind.empty())
      continue;
    for (auto [i, dim] : llvm::enumerate(dims)) {
      auto at = static_cast<int64_t>(i);
      if (llvm::is_contained(behind, at))
        continue;
      if (llvm::is_contained(folded.asArrayRef(), at))
        rest.push_back(static_cast<int64_t>(left.size()));
      left.push_back(dim);
    }
    OpBuilder builder(&op);
    Operation *rows = builder.clone(op);
    rows->setAttr("dims", builder.getDenseI64ArrayAttr(behind));
    rows->getResult(0).setType(ir::tensorOf(left, type.getElementType()));
    op.setOperand(0, rows->getResult(0));
    op.setAttr("dims", builder.getDenseI64ArrayAttr(rest));
  }
}

} // namespace weft::compiler
