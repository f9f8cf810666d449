#include "backends/reference/Interpreter.h"

#include "dialects/weft/ir/Weft.h"

namespace weft::backends::reference {

mlir::FailureOr<llvm::SmallVector<ir::HostTensor>>
interpret(mlir::func::FuncOp function, llvm::SmallVector<ir::HostTensor> inputs) {
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitOpError("must have one block for reference evaluation, but has ")
           << function.getBody().getBlocks().size();
  llvm::SmallVector<ir::HostTensor> results;
  if (mlir::failed(ir::evaluateBlock(function.getBody().front(), inputs, results)))
    return mlir::failure();
  return results;
}

} // namespace weft::backends::reference
