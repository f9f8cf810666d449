// Ops whose positions come from data. Gathers are parallel generics that extract from their input;
// scatters are reductions over all source elements, each of which is combined where its target is
// the result's position. Read as written, a scatter is quadratic; codegen makes one loop over the
// source of it. Its generic's inputs are the indices and the source; its loops the dims of the
// result (parallel), then those of the source (reductions, in whose row-major order elements are
// added).
#include "dialects/weft/ir/IndexBounds.h"
#include "dialects/weft/lowerings/LowerToLinalg.h"

namespace weft::ir {

using namespace mlir;

using Values = SmallVector<Value>;

// A parallel generic over the elements of the indices, which reads the table where the statement
// says.
static FailureOr<Values> gather(OpBuilder &b, Operation *op, ValueRange operands) {
  IndexStatement statement = *statementOf(op);
  Value table = operands[0];
  return Values{
      parallelGeneric(b, op->getLoc(), typeOf(op->getResult(0)), operands[1],
                      mapOf(statement, statement.operands[1], b.getContext()),
                      [&](OpBuilder &inner, Location loc, ValueRange args) -> Value {
                        Values at;
                        for (const Position &position : statement.operands[0]) {
                          int32_t number = position.terms[0].dim;
                          const IndexDim &dim = statement.dims[number];
                          at.push_back(dim.purpose == Purpose::Chosen
                                           ? checkedIndex(inner, loc, args[0], dim.size.size)
                                           : Value(linalg::IndexOp::create(inner, loc, number)));
                        }
                        return tensor::ExtractOp::create(inner, loc, table, at);
                      })};
}
FailureOr<Values> IndexSelectOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return gather(b, *this, operands);
}
FailureOr<Values> GatherOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return gather(b, *this, operands);
}

// What is there and what meets it, as one.
using Combine = Value (*)(ScalarEmitter &, Value there, Value update);
static Value addUp(ScalarEmitter &s, Value there, Value update) {
  return s.add(there, update);
}
static Value keepLast(ScalarEmitter &, Value, Value update) {
  return update;
}

// result[t] = base[t] combined with source[s] for all s, in row-major order, whose target is t:
// t[i] = s[sourceDim(i)] for i != dim and t[dim] = indices[s]. Loops: the dims of t, then those of
// s.
static Value scatter(OpBuilder &b, Location loc, Value base, Value indices, AffineMap indexMap,
                     Value source, int64_t dim, function_ref<int64_t(int64_t)> sourceDim,
                     Combine combine) {
  auto type = typeOf(base), from = typeOf(source);
  int64_t rank = type.getRank(), loops = rank + from.getRank();
  SmallVector<AffineExpr> sourceExprs, targetExprs;
  for (int64_t i = rank; i < loops; ++i)
    sourceExprs.push_back(b.getAffineDimExpr(i));
  for (int64_t i = 0; i < rank; ++i)
    targetExprs.push_back(b.getAffineDimExpr(i));
  SmallVector<utils::IteratorType> iterators(loops, utils::IteratorType::reduction);
  std::fill_n(iterators.begin(), rank, utils::IteratorType::parallel);
  AffineMap sourceMap = AffineMap::get(loops, 0, sourceExprs, b.getContext());
  auto generic = linalg::GenericOp::create(
      b, loc, TypeRange{type}, ValueRange{indices, source}, ValueRange{base},
      ArrayRef<AffineMap>{indexMap.shiftDims(rank), sourceMap,
                          AffineMap::get(loops, 0, targetExprs, b.getContext())},
      iterators, [&](OpBuilder &inner, Location at, ValueRange args) {
        Value target = checkedIndex(inner, at, args[0], type.getDimSize(dim));
        Value hit;
        for (int64_t i = 0; i < rank; ++i) {
          Value from =
              i == dim ? target : Value(linalg::IndexOp::create(inner, at, rank + sourceDim(i)));
          Value equal = arith::CmpIOp::create(inner, at, arith::CmpIPredicate::eq, from,
                                              linalg::IndexOp::create(inner, at, i));
          hit = hit ? Value(arith::AndIOp::create(inner, at, hit, equal)) : equal;
        }
        ScalarEmitter emitter(inner, at);
        Value here = combine(emitter, args[2], args[1]);
        linalg::YieldOp::create(inner, at,
                                Value(arith::SelectOp::create(inner, at, hit, here, args[2])));
      });
  return generic.getResult(0);
}

template <typename Op>
static Values scatterSlices(OpBuilder &b, Op op, ValueRange operands, Combine combine) {
  int64_t dim = op.getDim(), width = op.getIndices().getType().getRank(),
          sourceRank = op.getSource().getType().getRank();
  SmallVector<AffineExpr> position;
  for (int64_t i = 0; i < width; ++i)
    position.push_back(b.getAffineDimExpr(dim + i));
  AffineMap indexMap = AffineMap::get(sourceRank, 0, position, b.getContext());
  return Values{scatter(
      b, op.getLoc(), operands[0], operands[1], indexMap, operands[2], dim,
      [&](int64_t i) { return i < dim ? i : i + width - 1; }, combine)};
}
FailureOr<Values> IndexAddOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return scatterSlices(b, *this, operands, addUp);
}
FailureOr<Values> IndexPutOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return scatterSlices(b, *this, operands, keepLast);
}

static Values scatterElements(OpBuilder &b, Location loc, ValueRange operands, int64_t dim,
                              Combine combine) {
  int64_t rank = typeOf(operands[2]).getRank();
  return Values{scatter(
      b, loc, operands[0], operands[1], AffineMap::getMultiDimIdentityMap(rank, b.getContext()),
      operands[2], dim, [](int64_t i) { return i; }, combine)};
}
FailureOr<Values> ScatterOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return scatterElements(b, getLoc(), operands, getDim(), keepLast);
}
FailureOr<Values> ScatterAddOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return scatterElements(b, getLoc(), operands, getDim(), addUp);
}
FailureOr<Values> ScatterReduceOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  Combine combine = nullptr;
  switch (getCombiner()) {
  case Combiner::prod:
    combine = [](ScalarEmitter &s, Value there, Value update) {
      return s.mul(there, update);
    };
    break;
  case Combiner::max:
    combine = [](ScalarEmitter &s, Value there, Value update) {
      return s.maximum(there, update);
    };
    break;
  case Combiner::min:
    combine = [](ScalarEmitter &s, Value there, Value update) {
      return s.minimum(there, update);
    };
    break;
  }
  return scatterElements(b, getLoc(), operands, getDim(), combine);
}

std::optional<IndexBounds> indexBounds(Operation *op) {
  // All ops of these kinds take the tensor that is indexed along `dim`, then the indices.
  auto weft = dyn_cast<WeftOp>(op);
  if (weft && (weft.kind() == Kind::Gather || weft.kind() == Kind::Scatter)) {
    if (op->hasAttr(kInRangeAttr))
      return std::nullopt;
    // One that is not verified yet may have neither.
    if (!isOwn(op) && (op->getNumOperands() < 2 || !op->getAttrOfType<IntegerAttr>("dim")))
      return std::nullopt;
    int64_t dim = cast<IntegerAttr>(op->getAttr("dim")).getInt(),
            size = typeOf(op->getOperand(0)).getDimSize(dim);
    if (ShapedType::isDynamic(size))
      return std::nullopt;
    auto user = op->getAttrOfType<StringAttr>("user");
    return IndexBounds{op->getOperand(1),
                       user && !user.empty() ? user.getValue() : op->getName().getStringRef(),
                       -size, size, std::nullopt};
  }
  if (auto check = dyn_cast<CheckIndexOp>(op)) {
    std::optional<int64_t> ignored;
    if (check.getIgnoreIndex())
      ignored = static_cast<int64_t>(*check.getIgnoreIndex());
    return IndexBounds{check.getInput(), check.getUser(), 0, static_cast<int64_t>(check.getSize()),
                       ignored};
  }
  return std::nullopt;
}

} // namespace weft::ir
