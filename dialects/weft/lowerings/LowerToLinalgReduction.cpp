// Reductions and matmul as linalg.generic with reduction iterators.
#include "dialects/weft/lowerings/LowerToLinalg.h"

namespace weft::ir {

using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::FailureOr;
using mlir::OpBuilder;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::ValueRange;
using Values = llvm::SmallVector<Value>;
namespace arith = mlir::arith;

FailureOr<Values> ReduceSumOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  auto type = mlir::cast<RankedTensorType>(getType());
  return Values{reductionGeneric(b, *this, operands,
                                 mlir::cast<mlir::TypedAttr>(b.getZeroAttr(type.getElementType())),
                                 [](OpBuilder &inner, mlir::Location loc, ValueRange args) {
                                   return ScalarEmitter(inner, loc).add(args[1], args[0]);
                                 })};
}

FailureOr<Values> ReduceProdOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  auto type = mlir::cast<RankedTensorType>(getType());
  return Values{reductionGeneric(b, *this, operands,
                                 mlir::cast<mlir::TypedAttr>(b.getOneAttr(type.getElementType())),
                                 [](OpBuilder &inner, mlir::Location loc, ValueRange args) {
                                   return ScalarEmitter(inner, loc).mul(args[1], args[0]);
                                 })};
}

// What every element of the type is at least (greatest: at most), infinities included.
static mlir::TypedAttr extremeOf(OpBuilder &b, mlir::Type element, bool greatest) {
  if (auto floating = mlir::dyn_cast<mlir::FloatType>(element))
    return b.getFloatAttr(
        floating, llvm::APFloat::getInf(floating.getFloatSemantics(), /*Negative=*/!greatest));
  unsigned width = element.getIntOrFloatBitWidth();
  if (element.isInteger(1) || element.isUnsignedInteger())
    return b.getIntegerAttr(element, greatest ? llvm::APInt::getMaxValue(width)
                                              : llvm::APInt::getMinValue(width));
  return b.getIntegerAttr(element, greatest ? llvm::APInt::getSignedMaxValue(width)
                                            : llvm::APInt::getSignedMinValue(width));
}

FailureOr<Values> ReduceMaxOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  auto type = mlir::cast<RankedTensorType>(getType());
  return Values{reductionGeneric(b, *this, operands,
                                 extremeOf(b, type.getElementType(), /*greatest=*/false),
                                 [](OpBuilder &inner, mlir::Location loc, ValueRange args) {
                                   return ScalarEmitter(inner, loc).maximum(args[1], args[0]);
                                 })};
}

FailureOr<Values> ReduceMinOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  auto type = mlir::cast<RankedTensorType>(getType());
  return Values{reductionGeneric(b, *this, operands,
                                 extremeOf(b, type.getElementType(), /*greatest=*/true),
                                 [](OpBuilder &inner, mlir::Location loc, ValueRange args) {
                                   return ScalarEmitter(inner, loc).minimum(args[1], args[0]);
                                 })};
}

// Read as written, the sum of all elements that are no further along dim, which is quadratic:
// kScanDim says that one loop does it.
FailureOr<Values> CumsumOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  auto type = mlir::cast<RankedTensorType>(getType());
  int64_t rank = type.getRank(), dim = getDim();
  llvm::SmallVector<AffineExpr> position;
  for (int64_t i = 0; i < rank; ++i)
    position.push_back(b.getAffineDimExpr(i == dim ? rank : i));
  // Loops: the dims of the result, then the elements that are added up.
  llvm::SmallVector<AffineExpr> result;
  for (int64_t i = 0; i < rank; ++i)
    result.push_back(b.getAffineDimExpr(i));
  llvm::SmallVector<mlir::utils::IteratorType> iterators(rank + 1,
                                                         mlir::utils::IteratorType::parallel);
  iterators.back() = mlir::utils::IteratorType::reduction;
  Value init =
      arith::ConstantOp::create(b, getLoc(), mlir::cast<mlir::TypedAttr>(b.getZeroAttr(type)));
  bool reverse = getReverse();
  auto generic = mlir::linalg::GenericOp::create(
      b, getLoc(), mlir::TypeRange{type}, operands, ValueRange{init},
      llvm::ArrayRef<AffineMap>{AffineMap::get(rank + 1, 0, position, b.getContext()),
                                AffineMap::get(rank + 1, 0, result, b.getContext())},
      iterators, [&](OpBuilder &inner, mlir::Location loc, ValueRange args) {
        Value to = mlir::linalg::IndexOp::create(inner, loc, dim),
              from = mlir::linalg::IndexOp::create(inner, loc, rank);
        Value counts = arith::CmpIOp::create(
            inner, loc, reverse ? arith::CmpIPredicate::uge : arith::CmpIPredicate::ule, from, to);
        Value sum = ScalarEmitter(inner, loc).add(args[1], args[0]);
        mlir::linalg::YieldOp::create(
            inner, loc, Value(arith::SelectOp::create(inner, loc, counts, sum, args[1])));
      });
  generic->setAttr(kScanDim, b.getI64IntegerAttr(dim));
  return Values{generic.getResult(0)};
}

FailureOr<Values> MatmulOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  mlir::Type element = mlir::getElementTypeOrSelf(getType());
  return Values{reductionGeneric(b, *this, operands,
                                 mlir::cast<mlir::TypedAttr>(b.getZeroAttr(element)),
                                 [](OpBuilder &inner, mlir::Location loc, ValueRange args) {
                                   ScalarEmitter s(inner, loc);
                                   return s.add(args[2], s.mul(args[0], args[1]));
                                 })};
}

} // namespace weft::ir
