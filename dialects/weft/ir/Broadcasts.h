// What broadcasts spread.
#pragma once

#include "dialects/weft/ir/Weft.h"

namespace weft::ir {

// Where `op` spreads one number for each index of dim `dim` of its result over all other dims:
// those numbers, whatever dims of size 1 they have besides; else null.
inline mlir::Value vectorAlong(BroadcastOp op, int64_t dim) {
  mlir::RankedTensorType from = op.getInput().getType(), to = op.getType();
  int64_t own = dim - (to.getRank() - from.getRank()), size = to.getDimSize(dim);
  bool isVector = own >= 0 && from.hasStaticShape() && from.getDimSize(own) == size &&
                  from.getNumElements() == size;
  return isVector ? op.getInput() : mlir::Value();
}

} // namespace weft::ir
