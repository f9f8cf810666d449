#include "compiler/codegen/StorageTypes.h"

#include "compiler/math/Expand.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

namespace weft::compiler {

using namespace mlir;

namespace {

bool isNarrowFloat(Type element) {
  return element.isBF16() || element.isF16();
}
bool isNarrowFloat(Value value) {
  return isNarrowFloat(getElementTypeOrSelf(value.getType()));
}

// The type that stands for `type`; itself for most.
Type storageType(Type type) {
  MLIRContext *context = type.getContext();
  if (isNarrowFloat(type))
    return IntegerType::get(context, 16);
  if (type.isUnsignedInteger())
    return IntegerType::get(context, type.getIntOrFloatBitWidth());
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.cloneWith(std::nullopt, storageType(vector.getElementType()));
  if (auto memref = dyn_cast<MemRefType>(type)) {
    Type element = storageType(memref.getElementType());
    return element == memref.getElementType() ? type
                                              : MemRefType::Builder(memref).setElementType(element);
  }
  if (auto function = dyn_cast<FunctionType>(type)) {
    auto all = [](TypeRange types) {
      return llvm::map_to_vector(types, storageType);
    };
    return FunctionType::get(context, all(function.getInputs()), all(function.getResults()));
  }
  return type;
}

Attribute storageAttribute(Attribute attribute) {
  if (auto floating = dyn_cast<FloatAttr>(attribute); floating && isNarrowFloat(floating.getType()))
    return IntegerAttr::get(storageType(floating.getType()), floating.getValue().bitcastToAPInt());
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return IntegerAttr::get(storageType(integer.getType()), integer.getValue());
  auto dense = dyn_cast<DenseElementsAttr>(attribute);
  return dense ? Attribute(dense.bitcast(storageType(dense.getElementType()))) : attribute;
}

//===-- Conversions ---------------------------------------------------------------------------===//

// Scalars or vectors at one place; `like` says which.
struct Lanes {
  OpBuilder &b;
  Location loc;
  Type like;

  template <typename Op, typename... Args> Value make(Args &&...args) {
    return Op::create(b, loc, std::forward<Args>(args)...);
  }
  Type of(Type element) {
    return withElement(like, element);
  }
  Type i16() {
    return of(b.getIntegerType(16));
  }
  Type i32() {
    return of(b.getI32Type());
  }
  Type f32() {
    return of(b.getF32Type());
  }
  Type f64() {
    return of(b.getF64Type());
  }
  Value number(Type type, TypedAttr value) {
    if (auto vector = dyn_cast<VectorType>(type))
      value = SplatElementsAttr::get(vector, Attribute(value));
    return make<arith::ConstantOp>(value);
  }
  Value word(int64_t value) {
    return number(i32(), b.getI32IntegerAttr(static_cast<int32_t>(value)));
  }
  Value half(int64_t value) {
    return number(i16(), b.getIntegerAttr(b.getIntegerType(16), APInt(16, value)));
  }
  Value bitsOf(Value x, Type type) {
    return make<arith::BitcastOp>(type, x);
  }
  Value both(Value x, Value y) {
    return make<arith::AndIOp>(x, y);
  }
  Value either(Value x, Value y) {
    return make<arith::OrIOp>(x, y);
  }
  Value sum(Value x, Value y) {
    return make<arith::AddIOp>(x, y);
  }
  Value left(Value x, int64_t by) {
    return make<arith::ShLIOp>(x, word(by));
  }
  Value right(Value x, int64_t by) {
    return make<arith::ShRUIOp>(x, word(by));
  }
  Value above(Value x, Value y) {
    return make<arith::CmpIOp>(arith::CmpIPredicate::ugt, x, y);
  }
  Value select(Value condition, Value x, Value y) {
    return make<arith::SelectOp>(condition, x, y);
  }
};

// The f32 that has these bits of a bf16 (i32, low half) as its upper half.
Value fromBFloat16(Lanes at, Value bits) {
  return at.bitsOf(at.left(bits, 16), at.f32());
}

Value toBFloat16(Lanes at, Value x) {
  Value bits = at.bitsOf(x, at.i32());
  Value nan = at.make<arith::CmpFOp>(arith::CmpFPredicate::UNO, x, x);
  // Half a unit in the last place, less one where the result would be even: ties go to even.
  Value odd = at.both(at.right(bits, 16), at.word(1));
  Value rounded = at.right(at.sum(at.sum(bits, at.word(0x7fff)), odd), 16);
  return at.select(nan, at.either(at.right(bits, 16), at.word(0x40)), rounded);
}

// 2^112 times the f32 of the shifted bits rebases the exponent, of denormals too, which become
// normal; infinity and NaN keep their bits.
Value fromFloat16(Lanes at, Value bits) {
  Value magnitude = at.left(at.both(bits, at.word(0x7fff)), 13),
        sign = at.left(at.both(bits, at.word(0x8000)), 16);
  Value scale = at.number(at.f32(), at.b.getF32FloatAttr(0x1p112f));
  Value finite = at.bitsOf(at.make<arith::MulFOp>(at.bitsOf(magnitude, at.f32()), scale), at.i32());
  Value quiet =
      at.select(at.above(magnitude, at.word(0x0f800000)), at.word(0x00400000), at.word(0));
  Value special = at.either(at.either(magnitude, at.word(0x7f800000)), quiet);
  Value isFinite = at.above(at.word(0x0f800000), magnitude);
  return at.bitsOf(at.either(at.select(isFinite, finite, special), sign), at.f32());
}

// F. Giesen's float_to_half (2012): above 2^-14 the exponent is rebased and the sum's carry rounds;
// below, the addition of 0.5 rounds, whose last place is that of f16's denormals.
Value toFloat16(Lanes at, Value x) {
  Value bits = at.bitsOf(x, at.i32());
  Value sign = at.both(at.right(bits, 16), at.word(0x8000)),
        magnitude = at.both(bits, at.word(0x7fffffff));
  Value odd = at.both(at.right(magnitude, 13), at.word(1));
  Value normal = at.right(at.sum(at.sum(magnitude, at.word(-(112 << 23) + 0xfff)), odd), 13);
  Value half = at.number(at.f32(), at.b.getF32FloatAttr(0.5f));
  Value shifted = at.make<arith::AddFOp>(at.bitsOf(magnitude, at.f32()), half);
  Value denormal = at.make<arith::SubIOp>(at.bitsOf(shifted, at.i32()), at.word(0x3f000000));
  Value small = at.above(at.word(0x38800000), magnitude),
        large = at.above(magnitude, at.word(0x477fffff));
  Value nan = at.either(at.both(at.right(magnitude, 13), at.word(0x3ff)), at.word(0x7e00));
  Value special = at.select(at.above(magnitude, at.word(0x7f800000)), nan, at.word(0x7c00));
  return at.either(sign, at.select(large, special, at.select(small, denormal, normal)));
}

// f64 to f32, to odd where it is inexact: then rounding to a narrower float once more gives what
// rounding once does (Boldo and Melquiond 2008).
Value roundToOdd(Lanes at, Value x) {
  Value near = at.make<arith::TruncFOp>(at.f32(), x), back = at.make<arith::ExtFOp>(at.f64(), near);
  auto magnitude = [&](Value v) {
    return at.make<math::AbsFOp>(v);
  };
  Value away = at.make<arith::CmpFOp>(arith::CmpFPredicate::OGT, magnitude(back), magnitude(x));
  Value inexact = at.make<arith::CmpFOp>(arith::CmpFPredicate::ONE, back, x); // not for NaN
  Value bits = at.bitsOf(near, at.i32());
  Value towardsZero = at.select(away, at.sum(bits, at.word(-1)), bits);
  return at.bitsOf(at.select(inexact, at.either(towardsZero, at.word(1)), bits), at.f32());
}

// The truncations to bf16 that round nothing: of what was widened from it, and of what only picks
// among such numbers or changes signs.
DenseSet<Operation *> exactTruncations(ArrayRef<Operation *> ops) {
  DenseSet<Operation *> truncations;
  DenseSet<Value> exact; // f32 values that are numbers of bf16
  auto isExact = [&](Value x) {
    FloatAttr number;
    if (!matchPattern(x, m_Constant(&number))) {
      DenseElementsAttr elements;
      if (!matchPattern(x, m_Constant(&elements)) || !elements.isSplat() ||
          !isa<FloatType>(elements.getElementType()))
        return exact.contains(x);
      number = elements.getSplatValue<FloatAttr>();
    }
    bool loses = false;
    APFloat rounded = number.getValue();
    rounded.convert(llvm::APFloat::BFloat(), llvm::APFloat::rmNearestTiesToEven, &loses);
    return !loses && number.getType().isF32();
  };
  for (Operation *op : ops) {
    if (op->getNumResults() != 1 || op->getNumOperands() == 0)
      continue;
    Value result = op->getResult(0);
    Type element = getElementTypeOrSelf(result.getType());
    if (isa<arith::TruncFOp>(op) && element.isBF16() && isExact(op->getOperand(0)))
      truncations.insert(op);
    bool from =
        isa<arith::ExtFOp>(op) && getElementTypeOrSelf(op->getOperand(0).getType()).isBF16();
    bool keeps =
        isa<arith::NegFOp, arith::MaximumFOp, arith::MinimumFOp, math::AbsFOp, vector::BroadcastOp>(
            op) &&
        llvm::all_of(op->getOperands(), isExact);
    bool picks =
        isa<arith::SelectOp>(op) && isExact(op->getOperand(1)) && isExact(op->getOperand(2));
    if (element.isF32() && (from || keeps || picks))
      exact.insert(result);
  }
  return truncations;
}

class StorageTypes {
public:
  StorageTypes(ModuleOp module, bool halfConversions)
      : module_(module), halfConversions_(halfConversions) {}

  LogicalResult run() {
    SmallVector<Operation *> ops;
    module_.walk([&](Operation *op) { ops.push_back(op); });
    exact_ = exactTruncations(ops);
    for (Operation *op : ops)
      if (failed(rewrite(op)))
        return failure();
    module_.walk([&](Operation *op) { retype(op); });
    // What only told the types apart.
    SmallVector<Operation *> casts;
    module_.walk([&](Operation *op) {
      if (isa<arith::BitcastOp, UnrealizedConversionCastOp>(op) &&
          op->getOperand(0).getType() == op->getResult(0).getType())
        casts.push_back(op);
    });
    for (Operation *op : casts) {
      op->getResult(0).replaceAllUsesWith(op->getOperand(0));
      op->erase();
    }
    return success();
  }

private:
  // The bits of a 16-bit float as i16.
  Value bits(Lanes at, Value x) {
    return at.bitsOf(x, at.i16());
  }

  Value widened(Lanes at, Value x) {
    if (!isNarrowFloat(x))
      return x;
    bool isHalf = getElementTypeOrSelf(x.getType()).isF16();
    if (isHalf && halfConversions_) {
      // Through i16, as which x will arrive; this f16 stays one.
      Value native = at.bitsOf(bits(at, x), x.getType());
      keep_.insert(native.getDefiningOp());
      return at.make<arith::ExtFOp>(at.f32(), native);
    }
    Value word = at.make<arith::ExtUIOp>(at.i32(), bits(at, x));
    return isHalf ? fromFloat16(at, word) : fromBFloat16(at, word);
  }

  // x, which instruction selection computes as it stands. Without that LLVM 22 rounds the operands
  // of a scalar copysign in place of its result, takes the sign from what that operand was rounded
  // from, and calls a library's function where that is an f64. It leaves vectors alone.
  Value fenced(Lanes at, Value x) {
    if (isa<VectorType>(x.getType()))
      return x;
    return LLVM::CallIntrinsicOp::create(at.b, at.loc, x.getType(),
                                         at.b.getStringAttr("llvm.arithmetic.fence"), x)
        .getResult(0);
  }

  Value narrowed(Lanes at, Value x, Type to) {
    if (getElementTypeOrSelf(x.getType()).isF64())
      x = roundToOdd(at, x);
    bool isHalf = getElementTypeOrSelf(to).isF16();
    if (isHalf && halfConversions_) {
      Value native = at.make<arith::TruncFOp>(to, fenced(at, x));
      keep_.insert(native.getDefiningOp());
      return at.bitsOf(at.bitsOf(native, at.i16()), to);
    }
    return at.bitsOf(
        at.make<arith::TruncIOp>(at.i16(), isHalf ? toFloat16(at, x) : toBFloat16(at, x)), to);
  }

  // Ops that compute with 16-bit floats, in terms of others.
  LogicalResult rewrite(Operation *op) {
    bool touches = llvm::any_of(op->getOperands(), [](Value v) { return isNarrowFloat(v); }) ||
                   llvm::any_of(op->getResults(), [](Value v) { return isNarrowFloat(v); });
    bool computes = isa_and_nonnull<arith::ArithDialect, math::MathDialect>(op->getDialect());
    if (!touches || !computes || isa<arith::ConstantOp, arith::SelectOp, arith::BitcastOp>(op))
      return success();
    OpBuilder builder(op);
    Value first = op->getOperand(0);
    Lanes at{builder, op->getLoc(), first.getType()};
    Value value =
        TypeSwitch<Operation *, Value>(op)
            .Case([&](arith::ExtFOp extension) {
              Value wide = widened(at, first);
              return extension.getType() == wide.getType()
                         ? wide
                         : at.make<arith::ExtFOp>(extension.getType(), wide);
            })
            .Case([&](arith::TruncFOp truncation) {
              if (!exact_.contains(op))
                return narrowed(at, first, truncation.getType());
              Value upper = at.right(at.bitsOf(first, at.i32()), 16);
              return at.bitsOf(at.make<arith::TruncIOp>(at.i16(), upper), truncation.getType());
            })
            .Case([&](arith::NegFOp) {
              return at.bitsOf(at.make<arith::XOrIOp>(bits(at, first), at.half(0x8000)),
                               first.getType());
            })
            .Case([&](math::AbsFOp) {
              return at.bitsOf(at.both(bits(at, first), at.half(0x7fff)), first.getType());
            })
            .Case([&](arith::CmpFOp comparison) {
              return at.make<arith::CmpFOp>(comparison.getPredicate(), widened(at, first),
                                            widened(at, op->getOperand(1)));
            })
            .Default([](Operation *) { return Value(); });
    if (!value)
      return op->emitError("codegen: ")
             << op->getName() << " computes in a 16-bit float, which kernels only load and store";
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
    return success();
  }

  void retype(Operation *op) {
    if (keep_.contains(op))
      return;
    for (OpResult result : op->getResults())
      result.setType(storageType(result.getType()));
    for (Region &region : op->getRegions())
      for (BlockArgument argument : region.getArguments())
        argument.setType(storageType(argument.getType()));
    if (auto function = dyn_cast<func::FuncOp>(op))
      function.setType(cast<FunctionType>(storageType(function.getFunctionType())));
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      constant.setValueAttr(cast<TypedAttr>(storageAttribute(constant.getValue())));
    if (auto global = dyn_cast<memref::GlobalOp>(op)) {
      global.setTypeAttr(TypeAttr::get(storageType(global.getType())));
      if (Attribute value = global.getInitialValueAttr())
        global.setInitialValueAttr(storageAttribute(value));
    }
  }

  ModuleOp module_;
  bool halfConversions_;
  DenseSet<Operation *> keep_;  // converts f16 itself
  DenseSet<Operation *> exact_; // rounds nothing
};

} // namespace

LogicalResult lowerStorageTypes(ModuleOp module, bool halfConversions) {
  return StorageTypes(module, halfConversions).run();
}

} // namespace weft::compiler
