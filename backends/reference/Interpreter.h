// Runs functions of weft ops on host tensors by their reference evaluation: the specification that
// every other backend is compared to.
#pragma once

#include "dialects/weft/reference/HostTensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace weft::backends::reference {

// Results of `function`, which has one block of weft ops (weft.fusion and weft.provider_call run
// through their bodies), for `inputs` of its argument types; symbolic dims take the sizes of the
// inputs. Values are freed at their last use. Failures, such as an input of another shape or an
// index out of range, are diagnostics at the location of the op or argument.
mlir::FailureOr<llvm::SmallVector<ir::HostTensor>>
interpret(mlir::func::FuncOp function, llvm::SmallVector<ir::HostTensor> inputs);

} // namespace weft::backends::reference
