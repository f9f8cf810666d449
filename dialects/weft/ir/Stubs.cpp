// TEMPORARY: weak definitions so that everything links while rules are being written. Goes when the last rule stands.
#include "dialects/weft/ir/Weft.h"
namespace weft::ir {
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> RandomAdvanceOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> RandomUniformOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
} // namespace weft::ir
