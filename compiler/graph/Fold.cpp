// Folding by the ops' own folders, which hold for every value: a folded program gives the same bits
// as its kernels.
#include "compiler/graph/Simplify.h"

#include "llvm/ADT/SetVector.h"

namespace weft::compiler {

using llvm::failure;
using llvm::LogicalResult;
using llvm::success;
using mlir::dyn_cast;

bool Splat::is(double number) const {
  if (auto floating = mlir::dyn_cast_or_null<mlir::FloatAttr>(value)) {
    llvm::APFloat expected(number);
    bool lossy;
    expected.convert(floating.getValue().getSemantics(), llvm::APFloat::rmNearestTiesToEven,
                     &lossy);
    return !lossy && expected.bitwiseIsEqual(floating.getValue());
  }
  if (auto integer = mlir::dyn_cast_or_null<mlir::IntegerAttr>(value))
    return integer.getValue().getBitWidth() == 1
               ? integer.getValue().getBoolValue() == (number != 0)
               : static_cast<double>(integer.getValue().getSExtValue()) == number;
  return false;
}

std::optional<double> Splat::number() const {
  if (auto floating = mlir::dyn_cast_or_null<mlir::FloatAttr>(value))
    return floating.getValueAsDouble();
  if (auto integer = mlir::dyn_cast_or_null<mlir::IntegerAttr>(value))
    return static_cast<double>(integer.getValue().getSExtValue());
  return std::nullopt;
}

Splat splatOf(mlir::Value value) {
  if (auto broadcast = value.getDefiningOp<ir::BroadcastOp>())
    value = broadcast.getInput();
  auto constant = value.getDefiningOp<ir::ConstantOp>();
  if (!constant)
    return {};
  auto elements = dyn_cast<mlir::DenseElementsAttr>(constant.getValue());
  if (!elements || !elements.isSplat())
    return {};
  return {elements.getSplatValue<mlir::TypedAttr>()};
}

LogicalResult fold(mlir::Operation *op, mlir::RewriterBase &rewriter) {
  if (op->hasTrait<mlir::OpTrait::ConstantLike>())
    return failure();
  llvm::SmallVector<mlir::OpFoldResult> results;
  llvm::SmallSetVector<mlir::Operation *, 4> producers;
  for (mlir::Value operand : op->getOperands())
    if (mlir::Operation *producer = operand.getDefiningOp())
      producers.insert(producer);
  rewriter.startOpModification(op);
  if (failed(op->fold(results))) {
    rewriter.cancelOpModification(op);
    return failure();
  }
  if (results.empty()) {
    // Changed in place; what it read before may now be dead, and nobody else would look at it
    // again.
    rewriter.finalizeOpModification(op);
    for (mlir::Operation *producer : producers)
      if (mlir::isOpTriviallyDead(producer))
        rewriter.eraseOp(producer);
    return success();
  }
  rewriter.cancelOpModification(op);
  llvm::SmallVector<mlir::Value> values;
  for (auto [result, old] : llvm::zip(results, op->getResults())) {
    if (auto attribute = mlir::dyn_cast<mlir::Attribute>(result))
      values.push_back(ir::ConstantOp::create(rewriter, op->getLoc(),
                                              mlir::cast<mlir::ElementsAttr>(attribute)));
    else
      values.push_back(mlir::cast<mlir::Value>(result));
  }
  rewriter.replaceOp(op, values);
  return success();
}

} // namespace weft::compiler
