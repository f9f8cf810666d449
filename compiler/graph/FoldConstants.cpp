// Folding of ops on constants: only what evaluates exactly, so that a folded program gives the same bits as its kernels.
#include "compiler/graph/Simplify.h"

namespace weft::compiler {

using llvm::failure;
using llvm::LogicalResult;
using llvm::success;
using mlir::dyn_cast;
using mlir::isa;

bool Splat::is(double number) const {
  if (auto floating = mlir::dyn_cast_or_null<mlir::FloatAttr>(value)) {
    llvm::APFloat expected(number);
    bool lossy;
    expected.convert(floating.getValue().getSemantics(), llvm::APFloat::rmNearestTiesToEven, &lossy);
    return !lossy && expected.bitwiseIsEqual(floating.getValue());
  }
  if (auto integer = mlir::dyn_cast_or_null<mlir::IntegerAttr>(value))
    return integer.getValue().getBitWidth() == 1 ? integer.getValue().getBoolValue() == (number != 0)
                                                 : static_cast<double>(integer.getValue().getSExtValue()) == number;
  return false;
}

std::optional<double> Splat::number() const {
  if (auto floating = mlir::dyn_cast_or_null<mlir::FloatAttr>(value)) return floating.getValueAsDouble();
  if (auto integer = mlir::dyn_cast_or_null<mlir::IntegerAttr>(value)) return static_cast<double>(integer.getValue().getSExtValue());
  return std::nullopt;
}

Splat splatOf(mlir::Value value) {
  auto constant = value.getDefiningOp<ir::ConstantOp>();
  if (!constant) return {};
  auto elements = dyn_cast<mlir::DenseElementsAttr>(constant.getValue());
  if (!elements || !elements.isSplat()) return {};
  return {elements.getSplatValue<mlir::TypedAttr>()};
}

mlir::Value splatConstant(mlir::RewriterBase &rewriter, mlir::Location loc, mlir::Type type, mlir::TypedAttr element) {
  auto elements = mlir::DenseElementsAttr::get(mlir::cast<mlir::ShapedType>(type), mlir::Attribute(element));
  return ir::ConstantOp::create(rewriter, loc, mlir::cast<mlir::ElementsAttr>(elements));
}

namespace {

// Ops whose reference evaluation and kernels agree bit for bit. IEEE's basic operations computed in double and rounded to f32 are the
// correctly rounded ones (double has more than 2 * 24 + 2 bits); exp and its kin are not: their kernels have a budget of some ULPs.
bool foldsExactly(mlir::Operation *op) {
  return isa<ir::NegOp, ir::AbsOp, ir::ReluOp, ir::NotOp, ir::AddOp, ir::SubOp, ir::MulOp, ir::DivOp, ir::SqrtOp, ir::MinimumOp,
             ir::MaximumOp, ir::AndOp, ir::OrOp, ir::CompareOp, ir::SelectOp, ir::CastOp>(op);
}

// Movement of a table that is no splat.
bool movesExactly(mlir::Operation *op) {
  return isa<ir::ReshapeOp, ir::TransposeOp, ir::BroadcastOp, ir::SliceOp, ir::InsertSliceOp, ir::ConcatOp>(op);
}

// Evaluates with operands of one element each: what an elementwise op on splats gives everywhere.
LogicalResult foldSplats(mlir::Operation *op, mlir::RewriterBase &rewriter) {
  std::vector<ir::HostTensor> operands;
  for (mlir::Value operand : op->getOperands()) {
    Splat splat = splatOf(operand);
    if (!splat) return failure();
    auto scalar = mlir::RankedTensorType::get({}, tensorType(operand).getElementType());
    operands.push_back(
        ir::HostTensor::from(mlir::cast<mlir::ElementsAttr>(mlir::DenseElementsAttr::get(scalar, mlir::Attribute(splat.value)))));
  }
  auto type = tensorType(op->getResult(0));
  ir::HostTensor result = ir::HostTensor::of(mlir::RankedTensorType::get({}, type.getElementType()));
  llvm::SmallVector<const ir::HostTensor *> pointers;
  for (ir::HostTensor &operand : operands) pointers.push_back(&operand);
  ir::EvalContext context(op, pointers, result);
  if (failed(mlir::cast<ir::WeftOp>(op).evaluate(context))) return failure();
  auto folded = result.toAttribute(op->getContext()).getSplatValue<mlir::TypedAttr>();
  rewriter.replaceOp(op, splatConstant(rewriter, op->getLoc(), type, folded));
  return success();
}

LogicalResult foldTable(mlir::Operation *op, mlir::RewriterBase &rewriter) {
  auto type = tensorType(op->getResult(0));
  if (type.getNumElements() > kMaxFoldedElements) return failure();
  std::vector<ir::HostTensor> operands;
  for (mlir::Value operand : op->getOperands()) {
    auto constant = operand.getDefiningOp<ir::ConstantOp>();
    if (!constant || tensorType(operand).getNumElements() > kMaxFoldedElements) return failure();
    operands.push_back(ir::HostTensor::from(constant.getValue()));
  }
  ir::HostTensor result = ir::HostTensor::of(type);
  llvm::SmallVector<const ir::HostTensor *> pointers;
  for (ir::HostTensor &operand : operands) pointers.push_back(&operand);
  ir::EvalContext context(op, pointers, result);
  if (failed(mlir::cast<ir::WeftOp>(op).evaluate(context))) return failure();
  rewriter.replaceOpWithNewOp<ir::ConstantOp>(op, mlir::cast<mlir::ElementsAttr>(result.toAttribute(op->getContext())));
  return success();
}

} // namespace

LogicalResult foldConstants(mlir::Operation *op, mlir::RewriterBase &rewriter) {
  if (op->getNumResults() != 1 || op->getNumOperands() == 0) return failure();
  // Movement of a splat is a splat, except where the op adds elements from elsewhere.
  if (isa<ir::ReshapeOp, ir::TransposeOp, ir::BroadcastOp, ir::SliceOp>(op))
    if (Splat splat = splatOf(op->getOperand(0))) {
      rewriter.replaceOp(op, splatConstant(rewriter, op->getLoc(), op->getResult(0).getType(), splat.value));
      return success();
    }
  for (mlir::Value operand : op->getOperands())
    if (!operand.getDefiningOp<ir::ConstantOp>()) return failure();
  if (foldsExactly(op)) {
    if (tensorType(op->getResult(0)).getNumElements() == 0) return failure();
    return succeeded(foldSplats(op, rewriter)) ? success() : foldTable(op, rewriter);
  }
  if (movesExactly(op)) return foldTable(op, rewriter);
  return failure();
}

} // namespace weft::compiler
