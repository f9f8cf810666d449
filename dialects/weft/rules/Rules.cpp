#include "dialects/weft/rules/Rules.h"

#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/rules/Composites.h"

namespace weft::ir {

using namespace mlir;

static TypedAttr numberAttr(Type element, double number) {
  if (auto floating = dyn_cast<FloatType>(element))
    return FloatAttr::get(floating, number);
  unsigned width = cast<IntegerType>(element).getWidth();
  return IntegerAttr::get(element, APInt(64, saturating_int64(number)).sextOrTrunc(width));
}

Value splat(OpBuilder &b, Location loc, RankedTensorType type, TypedAttr value) {
  if (!type.getEncoding())
    return ConstantOp::create(b, loc, SplatElementsAttr::get(type, Attribute(value)));
  auto scalar = RankedTensorType::get({}, type.getElementType());
  return BroadcastOp::create(
      b, loc, type, ConstantOp::create(b, loc, SplatElementsAttr::get(scalar, Attribute(value))));
}

static Value splat(OpBuilder &b, Location loc, RankedTensorType type, double number) {
  return splat(b, loc, type, numberAttr(type.getElementType(), number));
}

Val Val::constant(double number) const {
  return at(splat(*builder_, *loc_, type(), number));
}
Val Val::constant(double number, ArrayRef<int64_t> shape) const {
  return at(splat(*builder_, *loc_, RankedTensorType::get(shape, type().getElementType()), number));
}
Val Val::integer(int64_t number) const {
  return at(splat(*builder_, *loc_, type(), IntegerAttr::get(type().getElementType(), number)));
}

//===-- Elementwise ---------------------------------------------------------------------------===//

template <typename Op> static Val unary(Val x) {
  return x.make<Op>(x.value());
}
template <typename Op> static Val binary(Val a, Val b) {
  return a.make<Op>(a.value(), b.value());
}

Val operator+(Val a, Val b) {
  return binary<AddOp>(a, b);
}
Val operator-(Val a, Val b) {
  return binary<SubOp>(a, b);
}
Val operator*(Val a, Val b) {
  return binary<MulOp>(a, b);
}
Val operator/(Val a, Val b) {
  return binary<DivOp>(a, b);
}
Val operator-(Val a) {
  return unary<NegOp>(a);
}
Val operator+(Val a, double b) {
  return a + a.constant(b);
}
Val operator-(Val a, double b) {
  return a - a.constant(b);
}
Val operator-(double a, Val b) {
  return b.constant(a) - b;
}
Val operator*(Val a, double b) {
  return a * a.constant(b);
}
Val operator*(double a, Val b) {
  return b.constant(a) * b;
}
Val operator/(Val a, double b) {
  return a / a.constant(b);
}
Val operator/(double a, Val b) {
  return b.constant(a) / b;
}

Val exp(Val x) {
  return unary<ExpOp>(x);
}
Val log(Val x) {
  return unary<LogOp>(x);
}
Val sqrt(Val x) {
  return unary<SqrtOp>(x);
}
Val rsqrt(Val x) {
  return unary<RsqrtOp>(x);
}
Val tanh(Val x) {
  return unary<TanhOp>(x);
}
Val erf(Val x) {
  return unary<ErfOp>(x);
}
Val sin(Val x) {
  return unary<SinOp>(x);
}
Val cos(Val x) {
  return unary<CosOp>(x);
}
Val sigmoid(Val x) {
  return unary<SigmoidOp>(x);
}
Val floor(Val x) {
  return unary<FloorOp>(x);
}
Val maximum(Val a, Val b) {
  return binary<MaximumOp>(a, b);
}

Val compare(StringRef direction, Val a, Val b) {
  std::optional<Direction> symbol = symbolizeDirection(direction);
  if (!symbol)
    mlir::emitError(a.loc()) << "a rule compares by '" << direction << "'; use eq, ne, lt, le, gt "
                             << "or ge";
  return a.make<CompareOp>(symbol.value_or(Direction::eq), a, b);
}

Val select(Val condition, Val onTrue, Val onFalse) {
  return onTrue.make<SelectOp>(condition, onTrue, onFalse);
}

Val cast(Val x, Type element) {
  if (x.type().getElementType() == element)
    return x;
  return x.make<CastOp>(withElementType(x.type(), element), x);
}

//===-- Movement ------------------------------------------------------------------------------===//

Val reshape(Val x, ArrayRef<int64_t> shape) {
  return reshapeTo(x, Dims(shape.begin(), shape.end()));
}

Val reshapeTo(Val x, ArrayRef<Dim> dims) {
  RankedTensorType type = tensorOf(dims, x.type().getElementType());
  return type == x.type() ? x : x.make<ReshapeOp>(type, x);
}

Val broadcast(Val x, ArrayRef<int64_t> shape) {
  return broadcastTo(x, Dims(shape.begin(), shape.end()));
}

Val broadcastTo(Val x, ArrayRef<Dim> dims) {
  RankedTensorType type = tensorOf(dims, x.type().getElementType());
  return type == x.type() ? x : x.make<BroadcastOp>(type, x);
}

Val transpose(Val x, ArrayRef<int64_t> permutation) {
  return x.make<TransposeOp>(x, permutation);
}

Val iota(Val like, ArrayRef<int64_t> shape, int64_t dim, Type element) {
  return like.make<IotaOp>(RankedTensorType::get(shape, element), dim);
}

//===-- Reduction and contraction -------------------------------------------------------------===//

template <typename Op> static Val reduce(Val x, ArrayRef<int64_t> dims, bool keepdim) {
  if (dims.empty())
    return x;
  SmallVector<int64_t> sorted(dims);
  llvm::sort(sorted);
  Val result = x.make<Op>(x.value(), sorted);
  if (!keepdim)
    return result;
  Dims kept = dimsOf(x);
  for (int64_t dim : dims)
    if (dim >= 0 && dim < x.rank()) // else the reduction is invalid, and has said so
      kept[dim] = 1;
  return reshapeTo(result, kept);
}

Val sum(Val x, ArrayRef<int64_t> dims, bool keepdim) {
  return reduce<ReduceSumOp>(x, dims, keepdim);
}
Val max(Val x, ArrayRef<int64_t> dims, bool keepdim) {
  return reduce<ReduceMaxOp>(x, dims, keepdim);
}
Val min(Val x, ArrayRef<int64_t> dims, bool keepdim) {
  return reduce<ReduceMinOp>(x, dims, keepdim);
}
Val prod(Val x, ArrayRef<int64_t> dims, bool keepdim) {
  return reduce<ReduceProdOp>(x, dims, keepdim);
}

Val matmul(Val a, Val b, bool transposeA, bool transposeB) {
  return a.make<MatmulOp>(a, b, transposeA, transposeB);
}

Val sumToDims(Val x, ArrayRef<Dim> dims) {
  Dims from = dimsOf(x);
  int64_t extra = static_cast<int64_t>(from.size()) - static_cast<int64_t>(dims.size());
  SmallVector<int64_t> reduced;
  for (int64_t i = 0; i < static_cast<int64_t>(from.size()); ++i)
    if (i < extra || (dims[i - extra].isOne() && !from[i].isOne()))
      reduced.push_back(i);
  return reshapeTo(sum(x, reduced), dims);
}

//===-- GradContext ---------------------------------------------------------------------------===//

GradContext::GradContext(OpBuilder &builder, Location loc, OperationName name,
                         OpaqueProperties properties, TypeRange operandTypes, TypeRange resultTypes,
                         ArrayRef<Value> operands, ArrayRef<Value> results,
                         ArrayRef<Value> cotangents, ArrayRef<bool> needs)
    : builder_(builder), loc_(loc), name_(name), properties_(properties),
      operandTypes_(operandTypes.begin(), operandTypes.end()),
      resultTypes_(resultTypes.begin(), resultTypes.end()), operands_(operands), results_(results),
      cotangents_(cotangents), gradients_(operandTypes.size()), needs_(needs) {}

InFlightDiagnostic GradContext::wrong() const {
  isWrong_ = true;
  return mlir::emitError(loc_) << "the derivative of " << name_.getStringRef() << " ";
}

// Zeros in place of what is not there: the rule goes on, and its result is not used.
Value GradContext::saved(StringRef what, ArrayRef<Value> values, ArrayRef<Type> types,
                         int64_t i) const {
  int64_t count = static_cast<int64_t>(values.size());
  if (i >= 0 && i < count && values[i])
    return values[i];
  if (i >= 0 && i < count)
    wrong() << "reads " << what << " " << i << ", which its record does not save";
  else
    wrong() << "reads " << what << " " << i << " of " << count;
  Type type = types.empty() ? resultTypes_[0] : types[std::clamp<int64_t>(i, 0, count - 1)];
  return splat(builder_, loc_, cast<RankedTensorType>(type), 0);
}

Val GradContext::computed(Value value) const {
  return roundsOnce_ ? widen(at(value)) : at(value);
}

Val GradContext::operand(int64_t i) const {
  return computed(saved("operand", operands_, operandTypes_, i));
}

Val GradContext::result(int64_t i) const {
  return computed(saved("result", results_, resultTypes_, i));
}

Val GradContext::g(int64_t i) const {
  int64_t count = static_cast<int64_t>(resultTypes_.size());
  if (i < 0 || i >= count) {
    wrong() << "reads the cotangent of result " << i << " of " << count;
    i = 0;
  }
  return computed(hasG(i) ? cotangents_[i] : splat(builder_, loc_, resultType(i), 0));
}

void GradContext::grad(int64_t i, Val value) {
  if (i < 0 || i >= numOperands()) {
    wrong() << "gives operand " << i << " of " << numOperands() << " a gradient";
    return;
  }
  if (!needs(i) || !value)
    return;
  Type element = operandType(i).getElementType();
  if (roundsOnce_ && isNarrow(element) && value.type().getElementType().isF32())
    value = cast(value, element);
  if (value.value().getType() != operandTypes_[i]) {
    wrong() << "gives operand " << i << " of type " << spell(operandTypes_[i])
            << " a gradient of type " << spell(value.value().getType());
    return;
  }
  gradients_[i] = value;
}

LogicalResult GradContext::noRule(StringRef name, StringRef reason) const {
  return mlir::emitError(loc_) << name << " has no derivative: " << reason;
}

//===-- EvalContext ---------------------------------------------------------------------------===//

LogicalResult EvalContext::error(const Twine &message) const {
  return op_->emitOpError() << message;
}
LogicalResult EvalContext::badIndex(StringRef user, int64_t index, int64_t position, int64_t lower,
                                    int64_t upper, std::optional<int64_t> ignored) const {
  InFlightDiagnostic error = mlir::emitError(op_->getLoc());
  if (user.contains(' '))
    return error << user;
  error << (user.empty() ? op_->getName().getStringRef() : user) << ": index " << index
        << " at position " << position << " is out of range; it must lie in [" << lower << ", "
        << upper << ")";
  if (ignored)
    error << " or be ignore_index, " << *ignored;
  return error;
}

} // namespace weft::ir
