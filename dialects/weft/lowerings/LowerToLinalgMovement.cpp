// Creation and movement ops as linalg.generic with other maps than the identity, reshapes as
// tensor.collapse_shape and expand_shape.
#include "dialects/weft/lowerings/LowerToLinalg.h"

namespace weft::ir {

using namespace mlir;

using Values = SmallVector<Value>;

static Value identity(OpBuilder &, Location, ValueRange args) {
  return args[0];
}

FailureOr<Values> ConstantOp::lowerToLinalg(OpBuilder &b, ValueRange) {
  return Values{arith::ConstantOp::create(b, getLoc(), cast<TypedAttr>(getValue()))};
}

FailureOr<Values> IotaOp::lowerToLinalg(OpBuilder &b, ValueRange) {
  auto type = getType();
  return Values{parallelGeneric(
      b, getLoc(), type, {}, {}, [&](OpBuilder &inner, Location loc, ValueRange) -> Value {
        Value index = linalg::IndexOp::create(inner, loc, getDim());
        Type element = type.getElementType();
        if (element.isSignlessInteger())
          return arith::IndexCastOp::create(inner, loc, element, index);
        return ScalarEmitter(inner, loc)
            .cast(arith::IndexCastOp::create(inner, loc, inner.getI64Type(), index), element);
      })};
}

FailureOr<Values> ReshapeOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  auto from = typeOf(getInput()), to = getType();
  if (from == to)
    return Values{operands[0]};
  // Through one dimension: the index arithmetic of codegen finds the short way.
  auto all = [](int64_t rank) {
    SmallVector<ReassociationIndices> groups;
    if (rank)
      groups.emplace_back(llvm::to_vector<2>(llvm::seq<int64_t>(0, rank)));
    return groups;
  };
  Value flat = operands[0];
  auto flatType = RankedTensorType::get({from.getNumElements()}, from.getElementType());
  if (from.getRank() == 0)
    flat = tensor::ExpandShapeOp::create(b, getLoc(), flatType, flat, all(0));
  else if (from.getRank() > 1)
    flat = tensor::CollapseShapeOp::create(b, getLoc(), flatType, flat, all(from.getRank()));
  if (to.getRank() == 0)
    flat = tensor::CollapseShapeOp::create(b, getLoc(), to, flat, all(0));
  else if (to.getRank() > 1)
    flat = tensor::ExpandShapeOp::create(b, getLoc(), to, flat, all(to.getRank()));
  return Values{flat};
}

FailureOr<Values> TransposeOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return lowerMovement(b, *this, operands);
}

FailureOr<Values> BroadcastOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return lowerMovement(b, *this, operands);
}

static SmallVector<OpFoldResult> indexAttributes(OpBuilder &b, ArrayRef<int64_t> values) {
  SmallVector<OpFoldResult> attributes;
  for (int64_t value : values)
    attributes.push_back(b.getIndexAttr(value));
  return attributes;
}

// The dims whose step is negative, walked the other way.
static Value reverse(OpBuilder &b, Location loc, Value value, ArrayRef<int64_t> steps) {
  auto type = typeOf(value);
  if (llvm::none_of(steps, [](int64_t step) { return step < 0; }))
    return value;
  SmallVector<AffineExpr> position;
  for (auto [i, step] : llvm::enumerate(steps))
    position.push_back(step > 0 ? b.getAffineDimExpr(i)
                                : b.getAffineDimExpr(i) * -1 + (type.getDimSize(i) - 1));
  return parallelGeneric(b, loc, type, value,
                         AffineMap::get(type.getRank(), 0, position, b.getContext()), identity);
}

FailureOr<Values> SliceOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  auto type = getType();
  if (type.getNumElements() == 0)
    return Values{tensor::EmptyOp::create(b, getLoc(), type.getShape(), type.getElementType())};
  // Steps down become steps up from the other end.
  SmallVector<int64_t> starts(getStarts()), steps(getSteps());
  for (int64_t i = 0; i < type.getRank(); ++i)
    if (steps[i] < 0)
      starts[i] += steps[i] * (type.getDimSize(i) - 1), steps[i] = -steps[i];
  Value up = tensor::ExtractSliceOp::create(
      b, getLoc(), type, operands[0], indexAttributes(b, starts),
      indexAttributes(b, type.getShape()), indexAttributes(b, steps));
  return Values{reverse(b, getLoc(), up, getSteps())};
}

FailureOr<Values> ConcatOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return Values{tensor::ConcatOp::create(b, getLoc(), getType(), getDim(), operands)};
}

FailureOr<Values> InsertSliceOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  auto update = typeOf(getUpdate());
  Value base = operands[0], source = operands[1];
  SmallVector<int64_t> starts(getStarts()), steps(getSteps());
  if (update.getNumElements() == 0)
    return Values{base};
  // Steps down become steps up over the reversed update.
  source = reverse(b, getLoc(), source, getSteps());
  for (int64_t i = 0; i < update.getRank(); ++i)
    if (steps[i] < 0)
      starts[i] += steps[i] * (update.getDimSize(i) - 1), steps[i] = -steps[i];
  return Values{tensor::InsertSliceOp::create(b, getLoc(), source, base, indexAttributes(b, starts),
                                              indexAttributes(b, update.getShape()),
                                              indexAttributes(b, steps))};
}

FailureOr<Values> WindowsOp::lowerToLinalg(OpBuilder &b, ValueRange operands) {
  return lowerMovement(b, *this, operands);
}

} // namespace weft::ir
