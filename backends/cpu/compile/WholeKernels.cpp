#include "backends/cpu/compile/WholeKernels.h"

#include "backends/cpu/compile/Limits.h"
#include "compiler/codegen/Limits.h"
#include "dialects/weft/ir/Attention.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/SmallestSize.h"
#include "dialects/weft/ir/Weft.h"

namespace weft::backends::cpu {

using namespace mlir;

using compiler::ClaimRefusal;
using compiler::KernelAnswer;
using compiler::NotMine;
using compiler::OwnKernel;
using compiler::SometimesMine;

KernelAnswer kernelFor(Operation *op) {
  if (!ir::isAttention(op))
    return NotMine{};
  auto typeOf = [&](int64_t i) {
    return ir::typeOf(op->getOperand(i));
  };
  RankedTensorType query = typeOf(0), value = typeOf(2);
  int64_t features = std::max(query.getShape().back(), value.getShape().back());
  if (query.getNumElements() == 0 || value.getNumElements() == 0)
    return ClaimRefusal{"empty", "there is nothing to attend to"};
  if (query.getShape().end()[-2] < kLeastQueries)
    return ClaimRefusal{"few-queries",
                        "products and a softmax take less time than attention's kernel, whose "
                        "lanes are queries"};
  if (features > kMostFeatures)
    return ClaimRefusal{"large-heads",
                        "with so many features the blocks of attention's kernel leave the caches"};
  if (ir::variesInLength(op)) {
    if (!ir::whyNoLengths(op).empty())
      return OwnKernel{}; // which codegen refuses, with that reason
    if (ir::smallestSize(op, ir::queryCount(op)) < kLeastQueries)
      return SometimesMine{"attention's kernel takes more queries than the range begins with"};
  } else {
    // Its kernel has the size that varies in front, where it counts matrices.
    for (Value operand : op->getOperands()) {
      auto dims = ir::dimsOf(operand);
      for (auto [d, dim] : llvm::enumerate(dims))
        if (!dim.isStatic() && (d > 0 || query.getRank() < 3 ||
                                static_cast<int64_t>(dims.size()) + 1 < query.getRank()))
          return SometimesMine{"attention's kernel has one length; the matrices of a program for "
                               "lengths that vary have others"};
    }
  }
  // How the derivative's sums are cut depends on the number of matrices where these are few.
  if (isa<ir::AttentionGradientOp>(op) && !ir::leadingDim(op).isStatic() &&
      ir::smallestMatrixCount(op) < compiler::kLeastMatrices)
    return SometimesMine{"the kernel of attention's derivative cuts its sums where the matrices "
                         "are few, and at the smallest size of the range they are"};
  return OwnKernel{};
}

} // namespace weft::backends::cpu
