#include "dialects/weft/rules/Folding.h"

#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/rules/CallRule.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

namespace weft::ir {

using namespace mlir;

//===-- Folding by evaluation -----------------------------------------------------------------===//

// Evaluates op on constants. With `splat`, on one element of each, and the result is a splat of the
// op's type.
static OpFoldResult evaluate(Operation *op, ArrayRef<Attribute> operands, bool splat) {
  auto type = typeOf(op->getResult(0));
  SmallVector<HostTensor> inputs;
  for (Attribute operand : operands) {
    auto dense = cast<DenseElementsAttr>(operand);
    auto scalar = RankedTensorType::get({}, dense.getElementType());
    inputs.push_back(HostTensor::from(splat ? dense.resizeSplat(scalar) : dense));
  }
  SmallVector<const HostTensor *> pointers;
  for (const HostTensor &input : inputs)
    pointers.push_back(&input);
  SmallVector<HostTensor> results;
  results.push_back(splat ? HostTensor(dtypeOf(type.getElementType()), {}) : HostTensor::of(type));
  EvalContext context(op, pointers, results);
  auto rules = cast<WeftOp>(op);
  if (failed(callRule(op, "evaluation", [&] { return rules.evaluate(context); })))
    return {};
  DenseElementsAttr value = results[0].toAttribute(op->getContext());
  return splat ? Attribute(value.resizeSplat(type)) : Attribute(value);
}

static bool allDense(ArrayRef<Attribute> operands) {
  return !operands.empty() &&
         llvm::all_of(operands, [](Attribute a) { return isa_and_present<DenseElementsAttr>(a); });
}
static bool allSplat(ArrayRef<Attribute> operands) {
  return llvm::all_of(operands, [](Attribute a) { return cast<DenseElementsAttr>(a).isSplat(); });
}
// Elements that are written out have one size.
static bool mayHold(RankedTensorType type) {
  return type.hasStaticShape() && !hasNamedDims(type) &&
         type.getNumElements() <= kMaxFoldedElements;
}

static bool isConstant(Attribute attribute, double number) {
  auto splat = dyn_cast_if_present<SplatElementsAttr>(attribute);
  if (!splat)
    return false;
  if (isa<FloatType>(splat.getElementType())) {
    APFloat value = splat.getSplatValue<APFloat>(), wanted(number);
    bool lost;
    wanted.convert(value.getSemantics(), APFloat::rmNearestTiesToEven, &lost);
    return value.bitwiseIsEqual(wanted); // tells -0 from 0
  }
  if (splat.getElementType().isInteger(1))
    return splat.getSplatValue<bool>() == (number != 0);
  return splat.getSplatValue<APInt>() ==
         APInt(64, static_cast<int64_t>(number), /*isSigned=*/true)
             .sextOrTrunc(splat.getElementType().getIntOrFloatBitWidth());
}

// What holds for every value of the other operand, NaN, infinities and -0 included.
static Value identity(Operation *op, ArrayRef<Attribute> operands) {
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](AddOp add) -> Value {
        // x + -0 is x; x + 0 is not, for x = -0.
        bool isInteger = isa<IntegerType>(add.getType().getElementType());
        double zero = isInteger ? 0.0 : -0.0;
        return isConstant(operands[1], zero)   ? add.getLhs()
               : isConstant(operands[0], zero) ? add.getRhs()
                                               : Value();
      })
      .Case([&](SubOp sub) { return isConstant(operands[1], 0) ? sub.getLhs() : Value(); })
      .Case([&](MulOp mul) -> Value {
        return isConstant(operands[1], 1)   ? mul.getLhs()
               : isConstant(operands[0], 1) ? mul.getRhs()
                                            : Value();
      })
      .Case([&](DivOp div) { return isConstant(operands[1], 1) ? div.getLhs() : Value(); })
      .Case<MinimumOp, MaximumOp, AndOp, OrOp>(
          [&](auto op) { return op.getLhs() == op.getRhs() ? op.getLhs() : Value(); })
      .Case<NegOp, NotOp>([&](auto op) -> Value {
        auto inner = op.getInput().template getDefiningOp<decltype(op)>();
        return inner ? inner.getInput() : Value();
      })
      .Case([&](SelectOp select) -> Value {
        if (select.getOnTrue() == select.getOnFalse())
          return select.getOnTrue();
        if (isConstant(operands[0], 1))
          return select.getOnTrue();
        return isConstant(operands[0], 0) ? select.getOnFalse() : Value();
      })
      .Default([](Operation *) { return Value(); });
}

// A splat that is repeated is one of the repeats' type.
static SmallVector<Attribute> withRepeatedSplats(Operation *op, ArrayRef<Attribute> operands) {
  SmallVector<Attribute> all(operands);
  for (auto [known, operand] : llvm::zip_equal(all, op->getOperands())) {
    auto broadcast = known ? BroadcastOp() : operand.getDefiningOp<BroadcastOp>();
    SplatElementsAttr splat;
    if (broadcast && broadcast.getType().hasStaticShape() &&
        matchPattern(broadcast.getInput(), m_Constant(&splat)) && splat.getNumElements() > 0)
      known = splat.resizeSplat(broadcast.getType());
  }
  return all;
}

OpFoldResult foldElementwise(Operation *op, ArrayRef<Attribute> known, bool exact) {
  SmallVector<Attribute> operands = withRepeatedSplats(op, known);
  if (Value same = identity(op, operands))
    return same;
  auto type = typeOf(op->getResult(0));
  if (!exact || !type.hasStaticShape() || !allDense(operands))
    return {};
  if (allSplat(operands))
    return type.getNumElements() == 0 ? OpFoldResult() : evaluate(op, operands, /*splat=*/true);
  return mayHold(type) ? evaluate(op, operands, /*splat=*/false) : OpFoldResult();
}

OpFoldResult foldMovement(Operation *op, ArrayRef<Attribute> operands) {
  auto type = typeOf(op->getResult(0));
  if (!type.hasStaticShape() || !allDense(operands))
    return {};
  auto first = cast<DenseElementsAttr>(operands[0]);
  if (operands.size() == 1 && first.isSplat() && first.getNumElements() > 0)
    return first.resizeSplat(type);
  bool smallOperands = llvm::all_of(
      op->getOperandTypes(), [](Type operand) { return mayHold(cast<RankedTensorType>(operand)); });
  return mayHold(type) && smallOperands ? evaluate(op, operands, /*splat=*/false) : OpFoldResult();
}

//===-- Elementwise ops whose records do not generate their fold ------------------------------===//

OpFoldResult CompareOp::fold(FoldAdaptor adaptor) {
  return foldElementwise(*this, adaptor.getOperands(), /*exact=*/true);
}
OpFoldResult SelectOp::fold(FoldAdaptor adaptor) {
  return foldElementwise(*this, adaptor.getOperands(), /*exact=*/true);
}

OpFoldResult TransferOp::fold(FoldAdaptor) {
  return getInput();
}

// Constant indices are checked where all others are.
OpFoldResult CheckIndexOp::fold(FoldAdaptor) {
  return {};
}

// Whether each value of `from` has an equal one in `to`.
static bool keepsValues(DType from, DType to) {
  auto significand = [](DType dtype) {
    switch (dtype) {
    case DType::kFloat64:
      return 53;
    case DType::kFloat32:
      return 24;
    case DType::kFloat16:
      return 11;
    case DType::kBFloat16:
      return 8;
    default:
      return 0;
    }
  };
  if (from == to || from == DType::kBool)
    return true;
  if (to == DType::kBool)
    return false;
  if (is_floating(from))
    return to == DType::kFloat64 || (to == DType::kFloat32 && from != DType::kFloat64);
  if (is_floating(to))
    return byte_size(from) * 8 <= significand(to);
  if (to == DType::kUInt8)
    return false;
  return byte_size(from) < byte_size(to);
}

OpFoldResult CastOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType())
    return getInput();
  if (auto inner = getInput().getDefiningOp<CastOp>()) {
    RankedTensorType from = inner.getInput().getType();
    // There and back through a dtype that holds all values.
    if (from == getType() &&
        keepsValues(dtypeOf(from.getElementType()), dtypeOf(inner.getType().getElementType())))
      return inner.getInput();
  }
  return foldElementwise(*this, adaptor.getOperands(), /*exact=*/true);
}

//===-- Creation and movement -----------------------------------------------------------------===//

OpFoldResult ConstantOp::fold(FoldAdaptor) {
  return getValue();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType())
    return getInput();
  if (auto inner = getInput().getDefiningOp<ReshapeOp>()) {
    getInputMutable().assign(inner.getInput());
    return getInput().getType() == getType() ? OpFoldResult(getInput()) : OpFoldResult(getResult());
  }
  return foldMovement(*this, adaptor.getOperands());
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  auto isIdentity = [](ArrayRef<int64_t> permutation) {
    return llvm::all_of(llvm::enumerate(permutation), [](auto entry) {
      return static_cast<int64_t>(entry.index()) == entry.value();
    });
  };
  if (isIdentity(getPermutation()))
    return getInput();
  if (auto inner = getInput().getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> composed;
    for (int64_t dim : getPermutation())
      composed.push_back(inner.getPermutation()[dim]);
    if (isIdentity(composed))
      return inner.getInput();
    setPermutation(composed);
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  return foldMovement(*this, adaptor.getOperands());
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType())
    return getInput();
  Operation *producer = getInput().getDefiningOp();
  if (auto inner = dyn_cast_if_present<BroadcastOp>(producer)) {
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  if (auto inner = dyn_cast_if_present<ReshapeOp>(producer)) {
    // A reshape that only puts ones in front does nothing that the broadcast does not do.
    Dims from = dimsOf(inner.getInput().getType()), to = dimsOf(inner.getType());
    bool onlyOnes =
        to.size() > from.size() && ArrayRef<Dim>(to).take_back(from.size()) == ArrayRef<Dim>(from);
    if (onlyOnes) {
      getInputMutable().assign(inner.getInput());
      return getInput().getType() == getType() ? OpFoldResult(getInput())
                                               : OpFoldResult(getResult());
    }
  }
  // A vector stays one where it is repeated, as one that is no constant does: a library takes it as
  // a bias, and adds it up in another order than a kernel that adds it to the result.
  return getInput().getType().getRank() == 0 ? foldMovement(*this, adaptor.getOperands())
                                             : OpFoldResult();
}

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  // The whole, in order: the same type does not tell, for it can be a reversed dimension.
  if (getInput().getType() == getType() &&
      llvm::all_of(getSteps(), [](int64_t step) { return step == 1; }))
    return getInput();
  return foldMovement(*this, adaptor.getOperands());
}

OpFoldResult ConcatOp::fold(FoldAdaptor adaptor) {
  return getInputs().size() == 1 ? OpFoldResult(getInputs()[0])
                                 : foldMovement(*this, adaptor.getOperands());
}

//===-- Random --------------------------------------------------------------------------------===//

// Reads the state that a random_advance moved on from as one at a larger offset, so that samples do
// not wait for the counter's kernel.
template <typename Op> static bool absorbAdvance(Op op) {
  auto advance = op.getState().template getDefiningOp<RandomAdvanceOp>();
  if (!advance)
    return false;
  op.setOffset(wrapping_add(static_cast<int64_t>(op.getOffset()),
                            static_cast<int64_t>(advance.getAmount())));
  op.getStateMutable().assign(advance.getState());
  return true;
}

OpFoldResult RandomUniformOp::fold(FoldAdaptor) {
  return absorbAdvance(*this) ? OpFoldResult(getResult()) : OpFoldResult();
}
OpFoldResult RandomNormalOp::fold(FoldAdaptor) {
  return absorbAdvance(*this) ? OpFoldResult(getResult()) : OpFoldResult();
}
LogicalResult DropoutOp::fold(FoldAdaptor, SmallVectorImpl<OpFoldResult> &) {
  return success(absorbAdvance(*this));
}

OpFoldResult RandomAdvanceOp::fold(FoldAdaptor) {
  if (getAmount() == 0)
    return getState();
  auto inner = getState().getDefiningOp<RandomAdvanceOp>();
  if (!inner)
    return {};
  setAmount(
      wrapping_add(static_cast<int64_t>(getAmount()), static_cast<int64_t>(inner.getAmount())));
  getStateMutable().assign(inner.getState());
  return getResult();
}

} // namespace weft::ir
