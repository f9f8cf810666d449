#include "compiler/fusion/TurnResults.h"

#include "compiler/fusion/FusionDomain.h"
#include "dialects/weft/ir/Attention.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"

namespace weft::compiler {

using namespace mlir;

static void turn(Value result) {
  SmallVector<ir::TransposeOp> transposes;
  SmallVector<OpOperand *> others;
  bool isRead = false;
  for (OpOperand &use : result.getUses()) {
    auto transpose = dyn_cast<ir::TransposeOp>(use.getOwner());
    if (transpose && movesRows(transpose))
      transposes.push_back(transpose);
    else if (ir::isAttention(use.getOwner()))
      others.push_back(&use);
    else
      isRead = true;
  }
  if (transposes.size() != 1)
    return;
  ir::TransposeOp transpose = transposes.front();
  transpose->moveAfter(result.getDefiningOp());
  if (others.empty() || isRead)
    return;
  OpBuilder builder(transpose->getContext());
  builder.setInsertionPointAfter(transpose);
  Value same =
      ir::TransposeOp::create(builder, transpose.getLoc(), result.getType(), transpose.getResult(),
                              invertPermutationVector(transpose.getPermutation()));
  for (OpOperand *use : others)
    use->set(same);
}

void turnResults(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
    if (ir::isAttention(&op) && FusionDomain::fusible(&op) == Refusal::None)
      for (Value result : op.getResults())
        turn(result);
}

} // namespace weft::compiler
