#include "dialects/weft/ir/MayFail.h"

#include "dialects/weft/ir/Custom.h"
#include "dialects/weft/ir/Weft.h"

namespace weft::ir {

using namespace mlir;

static bool failsItself(Operation &op) {
  if (auto lu = dyn_cast<LuOp>(op))
    return lu.getRegular();
  return isa<CustomOp, CholeskyOp>(op);
}

bool mayFail(Operation *op) {
  if (auto call = dyn_cast<ProviderCallOp>(op))
    return llvm::any_of(call.getBody().front(), failsItself);
  return failsItself(*op);
}

} // namespace weft::ir
