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

// A generic of the elements that are no further along dim, in their order, from `identity`:
// body(one of each operand..., accumulator). Read as written it is quadratic, and an accumulator
// that is no element of the result (an index's value) or a factor of the step before is not in it:
// kScanDim says that one loop does it, which the schedule knows.
static FailureOr<Values> lowerScan(OpBuilder &b, mlir::Operation *op, ValueRange operands,
                                   int64_t dim, bool reverse, mlir::Attribute identity,
                                   ScalarBody body) {
  auto type = mlir::cast<RankedTensorType>(op->getResult(0).getType());
  mlir::Location at = op->getLoc();
  int64_t rank = type.getRank();
  llvm::SmallVector<AffineExpr> position;
  for (int64_t i = 0; i < rank; ++i)
    position.push_back(b.getAffineDimExpr(i == dim ? rank : i));
  // Loops: the dims of the result, then the elements that are walked.
  llvm::SmallVector<AffineExpr> result;
  for (int64_t i = 0; i < rank; ++i)
    result.push_back(b.getAffineDimExpr(i));
  llvm::SmallVector<mlir::utils::IteratorType> iterators(rank + 1,
                                                         mlir::utils::IteratorType::parallel);
  iterators.back() = mlir::utils::IteratorType::reduction;
  Value init = arith::ConstantOp::create(b, at, mlir::DenseElementsAttr::get(type, identity));
  llvm::SmallVector<AffineMap> maps(operands.size(),
                                    AffineMap::get(rank + 1, 0, position, b.getContext()));
  maps.push_back(AffineMap::get(rank + 1, 0, result, b.getContext()));
  auto generic = mlir::linalg::GenericOp::create(
      b, at, mlir::TypeRange{type}, operands, ValueRange{init}, maps, iterators,
      [&](OpBuilder &inner, mlir::Location loc, ValueRange args) {
        Value to = mlir::linalg::IndexOp::create(inner, loc, dim),
              from = mlir::linalg::IndexOp::create(inner, loc, rank);
        Value counts = arith::CmpIOp::create(
            inner, loc, reverse ? arith::CmpIPredicate::uge : arith::CmpIPredicate::ule, from, to);
        Value next = body(inner, loc, args);
        mlir::linalg::YieldOp::create(
            inner, loc, Value(arith::SelectOp::create(inner, loc, counts, next, args.back())));
      });
  generic->setAttr(kScanDim, b.getI64IntegerAttr(dim));
  return Values{generic.getResult(0)};
}

FailureOr<Values> CumsumOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return lowerScan(b, *this, operands, getDim(), getReverse(),
                   b.getZeroAttr(mlir::getElementTypeOrSelf(getType())),
                   [](OpBuilder &inner, mlir::Location loc, ValueRange args) {
                     return ScalarEmitter(inner, loc).add(args[1], args[0]);
                   });
}

FailureOr<Values> CumprodOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return lowerScan(b, *this, operands, getDim(), false,
                   b.getOneAttr(mlir::getElementTypeOrSelf(getType())),
                   [](OpBuilder &inner, mlir::Location loc, ValueRange args) {
                     return ScalarEmitter(inner, loc).mul(args[1], args[0]);
                   });
}

FailureOr<Values> RecurrenceOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return lowerScan(b, *this, operands, getDim(), getReverse(),
                   b.getZeroAttr(mlir::getElementTypeOrSelf(getType())),
                   [](OpBuilder &inner, mlir::Location loc, ValueRange args) {
                     ScalarEmitter s(inner, loc);
                     return s.add(s.mul(args[2], args[0]), args[1]);
                   });
}

// The place of each element that is the best so far.
static FailureOr<Values> lowerCumArg(OpBuilder &b, mlir::Operation *op, ValueRange operands,
                                     int64_t dim) {
  return lowerScan(b, op, operands, dim, false, b.getI64IntegerAttr(0),
                   [&](OpBuilder &inner, mlir::Location loc, ValueRange) -> Value {
                     Value from = mlir::linalg::IndexOp::create(
                         inner, loc,
                         mlir::cast<RankedTensorType>(op->getResult(0).getType()).getRank());
                     return arith::IndexCastOp::create(inner, loc, inner.getI64Type(), from);
                   });
}
FailureOr<Values> CumArgMaxOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return lowerCumArg(b, *this, operands, getDim());
}
FailureOr<Values> CumArgMinOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return lowerCumArg(b, *this, operands, getDim());
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
