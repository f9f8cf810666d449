// TEMPORARY: weak definitions so that everything links while rules are being written. Goes when the last rule stands.
#include "dialects/weft/ir/Weft.h"
namespace weft::ir {
__attribute__((weak)) mlir::LogicalResult AbsOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> AttentionOp::decompose(mlir::OpBuilder &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult AttentionOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult BroadcastOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::OpFoldResult BroadcastOp::fold(FoldAdaptor) { return {}; }
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> BroadcastOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
__attribute__((weak)) mlir::LogicalResult CastOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> CastOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> CompareOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
__attribute__((weak)) mlir::LogicalResult ConcatOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> ConcatOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
__attribute__((weak)) mlir::OpFoldResult ConstantOp::fold(FoldAdaptor) { return {}; }
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> ConstantOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> CrossEntropyOp::decompose(mlir::OpBuilder &) {
  return mlir::failure();
}
__attribute__((weak)) mlir::LogicalResult CrossEntropyOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult DivOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> DropoutOp::decompose(mlir::OpBuilder &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult DropoutOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult ErfOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult GatherOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> GatherOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
__attribute__((weak)) mlir::LogicalResult GeluOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult IndexAddOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> IndexAddOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
__attribute__((weak)) mlir::LogicalResult IndexSelectOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> IndexSelectOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
__attribute__((weak)) mlir::LogicalResult InsertSliceOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> InsertSliceOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> IotaOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> LayerNormOp::decompose(mlir::OpBuilder &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult LayerNormOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> LogSoftmaxOp::decompose(mlir::OpBuilder &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult LogSoftmaxOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult MatmulOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> MatmulOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
__attribute__((weak)) mlir::LogicalResult MaximumOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult MinimumOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult MulOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult PowOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> RandomAdvanceOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> RandomNormalOp::decompose(mlir::OpBuilder &) {
  return mlir::failure();
}
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> RandomUniformOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
__attribute__((weak)) mlir::LogicalResult ReduceMaxOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> ReduceMaxOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> ReduceMeanOp::decompose(mlir::OpBuilder &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult ReduceMeanOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult ReduceSumOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> ReduceSumOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
__attribute__((weak)) mlir::LogicalResult ReluOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult ReshapeOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::OpFoldResult ReshapeOp::fold(FoldAdaptor) { return {}; }
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> ReshapeOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
__attribute__((weak)) mlir::LogicalResult RsqrtOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult ScatterAddOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> ScatterAddOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
__attribute__((weak)) mlir::LogicalResult SelectOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> SelectOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
__attribute__((weak)) mlir::LogicalResult SigmoidOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult SliceOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> SliceOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> SoftmaxOp::decompose(mlir::OpBuilder &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult SoftmaxOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult TanhOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::LogicalResult TransposeOp::differentiate(GradContext &) { return mlir::failure(); }
__attribute__((weak)) mlir::OpFoldResult TransposeOp::fold(FoldAdaptor) { return {}; }
__attribute__((weak)) mlir::FailureOr<llvm::SmallVector<mlir::Value>> TransposeOp::lowerToLinalg(mlir::OpBuilder &, mlir::ValueRange) {
  return mlir::failure();
}
} // namespace weft::ir
