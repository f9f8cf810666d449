// Included before the generated definitions of ops (WeftOps.cpp.inc, a user's mine_ops.cpp.inc):
// where the types of an op that is built cannot be inferred, its create() does not end the process.
//
// The generated builders call mlir::detail::reportFatalInferReturnTypesError then, which does; a
// rule of a user's that builds sum(x, {7}) would take the program with it. The op gets types that
// stand in instead, so that the rule runs to its end. Its diagnostic is there, and it does not
// verify, by which callers of rules know (decomposeOp, the recorder's derivatives, pass managers).
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"

namespace mlir::detail {

inline void standInForReturnTypes(OperationState &state) {
  Type type = state.operands.empty()
                  ? RankedTensorType::get({}, Float32Type::get(state.getContext()))
                  : state.operands[0].getType();
  size_t count = state.name.hasTrait<OpTrait::NResults<2>::Impl>()   ? 2
                 : state.name.hasTrait<OpTrait::NResults<3>::Impl>() ? 3
                                                                     : 1;
  state.types.assign(count, type);
}

} // namespace mlir::detail

#define reportFatalInferReturnTypesError standInForReturnTypes
