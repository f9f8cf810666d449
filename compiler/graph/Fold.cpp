// Folding by the ops' own folders, which hold for every value: a folded program gives the same bits
// as its kernels.
#include "compiler/graph/Simplify.h"

#include "llvm/ADT/SetVector.h"

namespace weft::compiler {

using namespace mlir;

bool Splat::is(double number) const {
  if (auto floating = dyn_cast_or_null<FloatAttr>(value)) {
    APFloat expected(number);
    bool lossy;
    expected.convert(floating.getValue().getSemantics(), APFloat::rmNearestTiesToEven, &lossy);
    return !lossy && expected.bitwiseIsEqual(floating.getValue());
  }
  if (auto integer = dyn_cast_or_null<IntegerAttr>(value))
    return integer.getValue().getBitWidth() == 1
               ? integer.getValue().getBoolValue() == (number != 0)
               : static_cast<double>(integer.getValue().getSExtValue()) == number;
  return false;
}

std::optional<double> Splat::number() const {
  if (auto floating = dyn_cast_or_null<FloatAttr>(value))
    return floating.getValueAsDouble();
  if (auto integer = dyn_cast_or_null<IntegerAttr>(value))
    return static_cast<double>(integer.getValue().getSExtValue());
  return std::nullopt;
}

Splat splatOf(Value value) {
  if (auto broadcast = value.getDefiningOp<ir::BroadcastOp>())
    value = broadcast.getInput();
  auto constant = value.getDefiningOp<ir::ConstantOp>();
  if (!constant)
    return {};
  auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!elements || !elements.isSplat())
    return {};
  return {elements.getSplatValue<TypedAttr>()};
}

LogicalResult fold(Operation *op, RewriterBase &rewriter) {
  if (op->hasTrait<OpTrait::ConstantLike>())
    return failure();
  SmallVector<OpFoldResult> results;
  llvm::SmallSetVector<Operation *, 4> producers;
  for (Value operand : op->getOperands())
    if (Operation *producer = operand.getDefiningOp())
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
    for (Operation *producer : producers)
      if (isOpTriviallyDead(producer))
        rewriter.eraseOp(producer);
    return success();
  }
  rewriter.cancelOpModification(op);
  SmallVector<Value> values;
  for (auto [result, old] : llvm::zip(results, op->getResults())) {
    if (auto attribute = dyn_cast<Attribute>(result))
      values.push_back(
          ir::ConstantOp::create(rewriter, op->getLoc(), cast<ElementsAttr>(attribute)));
    else
      values.push_back(cast<Value>(result));
  }
  rewriter.replaceOp(op, values);
  return success();
}

} // namespace weft::compiler
