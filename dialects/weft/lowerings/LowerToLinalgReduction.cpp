// Reductions and matmul as linalg.generic with reduction iterators.
#include "dialects/weft/lowerings/LowerToLinalg.h"

namespace weft::ir {

using namespace mlir;

using Values = SmallVector<Value>;

FailureOr<Values> ReduceSumOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  auto type = getType();
  return Values{reductionGeneric(b, *this, operands,
                                 cast<TypedAttr>(b.getZeroAttr(type.getElementType())),
                                 [](OpBuilder &inner, Location loc, ValueRange args) {
                                   return ScalarEmitter(inner, loc).add(args[1], args[0]);
                                 })};
}

FailureOr<Values> ReduceProdOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  auto type = getType();
  return Values{reductionGeneric(b, *this, operands,
                                 cast<TypedAttr>(b.getOneAttr(type.getElementType())),
                                 [](OpBuilder &inner, Location loc, ValueRange args) {
                                   return ScalarEmitter(inner, loc).mul(args[1], args[0]);
                                 })};
}

// What every element of the type is at least (greatest: at most), infinities included.
static TypedAttr extremeOf(OpBuilder &b, Type element, bool greatest) {
  if (auto floating = dyn_cast<FloatType>(element))
    return b.getFloatAttr(floating,
                          APFloat::getInf(floating.getFloatSemantics(), /*Negative=*/!greatest));
  unsigned width = element.getIntOrFloatBitWidth();
  if (element.isInteger(1) || element.isUnsignedInteger())
    return b.getIntegerAttr(element,
                            greatest ? APInt::getMaxValue(width) : APInt::getMinValue(width));
  return b.getIntegerAttr(element, greatest ? APInt::getSignedMaxValue(width)
                                            : APInt::getSignedMinValue(width));
}

FailureOr<Values> ReduceMaxOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  auto type = getType();
  return Values{reductionGeneric(b, *this, operands,
                                 extremeOf(b, type.getElementType(), /*greatest=*/false),
                                 [](OpBuilder &inner, Location loc, ValueRange args) {
                                   return ScalarEmitter(inner, loc).maximum(args[1], args[0]);
                                 })};
}

FailureOr<Values> ReduceMinOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  auto type = getType();
  return Values{reductionGeneric(b, *this, operands,
                                 extremeOf(b, type.getElementType(), /*greatest=*/true),
                                 [](OpBuilder &inner, Location loc, ValueRange args) {
                                   return ScalarEmitter(inner, loc).minimum(args[1], args[0]);
                                 })};
}

// A generic of the elements that are no further along dim, in their order, from `identity`:
// body(one of each operand..., accumulator). Read as written it is quadratic, and an accumulator
// that is no element of the result (an index's value) or a factor of the step before is not in it:
// the schedule makes one loop of it.
static FailureOr<Values> lowerScan(OpBuilder &b, Operation *op, ValueRange operands, int64_t dim,
                                   bool reverse, Attribute identity, ScalarBody body) {
  auto type = typeOf(op->getResult(0));
  Location at = op->getLoc();
  int64_t rank = type.getRank();
  SmallVector<AffineExpr> position;
  for (int64_t i = 0; i < rank; ++i)
    position.push_back(b.getAffineDimExpr(i == dim ? rank : i));
  // Loops: the dims of the result, then the elements that are walked.
  SmallVector<AffineExpr> result;
  for (int64_t i = 0; i < rank; ++i)
    result.push_back(b.getAffineDimExpr(i));
  SmallVector<utils::IteratorType> iterators(rank + 1, utils::IteratorType::parallel);
  iterators.back() = utils::IteratorType::reduction;
  Value init = arith::ConstantOp::create(b, at, DenseElementsAttr::get(type, identity));
  SmallVector<AffineMap> maps(operands.size(),
                              AffineMap::get(rank + 1, 0, position, b.getContext()));
  maps.push_back(AffineMap::get(rank + 1, 0, result, b.getContext()));
  auto generic = linalg::GenericOp::create(
      b, at, TypeRange{type}, operands, ValueRange{init}, maps, iterators,
      [&](OpBuilder &inner, Location loc, ValueRange args) {
        Value to = linalg::IndexOp::create(inner, loc, dim),
              from = linalg::IndexOp::create(inner, loc, rank);
        Value counts = arith::CmpIOp::create(
            inner, loc, reverse ? arith::CmpIPredicate::uge : arith::CmpIPredicate::ule, from, to);
        Value next = body(inner, loc, args);
        linalg::YieldOp::create(
            inner, loc, Value(arith::SelectOp::create(inner, loc, counts, next, args.back())));
      });
  return Values{generic.getResult(0)};
}

FailureOr<Values> CumsumOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return lowerScan(b, *this, operands, getDim(), getReverse(),
                   b.getZeroAttr(getElementTypeOrSelf(getType())),
                   [](OpBuilder &inner, Location loc, ValueRange args) {
                     return ScalarEmitter(inner, loc).add(args[1], args[0]);
                   });
}

FailureOr<Values> CumprodOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return lowerScan(b, *this, operands, getDim(), false,
                   b.getOneAttr(getElementTypeOrSelf(getType())),
                   [](OpBuilder &inner, Location loc, ValueRange args) {
                     return ScalarEmitter(inner, loc).mul(args[1], args[0]);
                   });
}

FailureOr<Values> RecurrenceOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return lowerScan(b, *this, operands, getDim(), getReverse(),
                   b.getZeroAttr(getElementTypeOrSelf(getType())),
                   [](OpBuilder &inner, Location loc, ValueRange args) {
                     ScalarEmitter s(inner, loc);
                     return s.add(s.mul(args[2], args[0]), args[1]);
                   });
}

// The place of each element that is the best so far.
static FailureOr<Values> lowerCumArg(OpBuilder &b, Operation *op, ValueRange operands,
                                     int64_t dim) {
  return lowerScan(b, op, operands, dim, false, b.getI64IntegerAttr(0),
                   [&](OpBuilder &inner, Location loc, ValueRange) -> Value {
                     Value from =
                         linalg::IndexOp::create(inner, loc, typeOf(op->getResult(0)).getRank());
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
  Type element = getElementTypeOrSelf(getType());
  return Values{reductionGeneric(b, *this, operands, cast<TypedAttr>(b.getZeroAttr(element)),
                                 [](OpBuilder &inner, Location loc, ValueRange args) {
                                   ScalarEmitter s(inner, loc);
                                   return s.add(args[2], s.mul(args[0], args[1]));
                                 })};
}

} // namespace weft::ir
