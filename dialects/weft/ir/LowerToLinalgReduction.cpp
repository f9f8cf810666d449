// Reductions and matmul as linalg.generic with reduction iterators.
#include "dialects/weft/ir/LowerToLinalg.h"

namespace weft::ir {

using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::FailureOr;
using mlir::OpBuilder;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::ValueRange;
using Values = llvm::SmallVector<Value>;

static llvm::SmallVector<bool> reducedDims(mlir::Value input, llvm::ArrayRef<int64_t> dims) {
  llvm::SmallVector<bool> reduced(mlir::cast<RankedTensorType>(input.getType()).getRank(), false);
  for (int64_t dim : dims) reduced[dim] = true;
  return reduced;
}

FailureOr<Values> ReduceSumOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  auto type = mlir::cast<RankedTensorType>(getType());
  return Values{reductionGeneric(b, getLoc(), type, reducedDims(getInput(), getDims()), operands, {},
                                 mlir::cast<mlir::TypedAttr>(b.getZeroAttr(type.getElementType())),
                                 [](OpBuilder &inner, mlir::Location loc, ValueRange args) {
                                   return ScalarEmitter(inner, loc).add(args[1], args[0]);
                                 })};
}

FailureOr<Values> ReduceMaxOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  auto type = mlir::cast<RankedTensorType>(getType());
  mlir::TypedAttr least;
  if (auto floating = mlir::dyn_cast<mlir::FloatType>(type.getElementType()))
    least = b.getFloatAttr(floating, llvm::APFloat::getInf(floating.getFloatSemantics(), /*Negative=*/true));
  else
    least = b.getIntegerAttr(type.getElementType(), llvm::APInt::getSignedMinValue(type.getElementTypeBitWidth()));
  return Values{reductionGeneric(b, getLoc(), type, reducedDims(getInput(), getDims()), operands, {}, least,
                                 [](OpBuilder &inner, mlir::Location loc, ValueRange args) {
                                   return ScalarEmitter(inner, loc).maximum(args[1], args[0]);
                                 })};
}

FailureOr<Values> MatmulOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  auto type = mlir::cast<RankedTensorType>(getType());
  int64_t batch = type.getRank() - 2, m = batch, n = batch + 1, k = batch + 2;
  // Loops: batch dims, m, n, k.
  auto position = [&](Value side, int64_t row, int64_t column) {
    auto from = mlir::cast<RankedTensorType>(side.getType());
    llvm::SmallVector<AffineExpr> exprs;
    for (int64_t i = 0, rank = from.getRank() - 2; i < rank; ++i) {
      int64_t dim = batch - rank + i;
      exprs.push_back(from.getDimSize(i) == 1 && type.getDimSize(dim) != 1 ? b.getAffineConstantExpr(0) : b.getAffineDimExpr(dim));
    }
    exprs.push_back(b.getAffineDimExpr(row));
    exprs.push_back(b.getAffineDimExpr(column));
    return AffineMap::get(batch + 3, 0, exprs, b.getContext());
  };
  AffineMap lhs = getTransposeLhs() ? position(getLhs(), k, m) : position(getLhs(), m, k);
  AffineMap rhs = getTransposeRhs() ? position(getRhs(), n, k) : position(getRhs(), k, n);
  llvm::SmallVector<bool> reduced(batch + 3, false);
  reduced[k] = true;
  return Values{reductionGeneric(b, getLoc(), type, reduced, operands, {lhs, rhs},
                                 mlir::cast<mlir::TypedAttr>(b.getZeroAttr(type.getElementType())),
                                 [](OpBuilder &inner, mlir::Location loc, ValueRange args) {
                                   ScalarEmitter s(inner, loc);
                                   return s.add(args[2], s.mul(args[0], args[1]));
                                 })};
}

} // namespace weft::ir
