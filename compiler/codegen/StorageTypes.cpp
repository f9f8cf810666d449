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

namespace arith = mlir::arith;
using mlir::Type;
using mlir::Value;

namespace {

bool isNarrowFloat(Type element) {
  return element.isBF16() || element.isF16();
}
bool isNarrowFloat(Value value) {
  return isNarrowFloat(mlir::getElementTypeOrSelf(value.getType()));
}

// The type that stands for `type`; itself for most.
Type storageType(Type type) {
  mlir::MLIRContext *context = type.getContext();
  if (isNarrowFloat(type))
    return mlir::IntegerType::get(context, 16);
  if (type.isUnsignedInteger())
    return mlir::IntegerType::get(context, type.getIntOrFloatBitWidth());
  if (auto vector = mlir::dyn_cast<mlir::VectorType>(type))
    return vector.cloneWith(std::nullopt, storageType(vector.getElementType()));
  if (auto memref = mlir::dyn_cast<mlir::MemRefType>(type)) {
    Type element = storageType(memref.getElementType());
    return element == memref.getElementType()
               ? type
               : mlir::MemRefType::Builder(memref).setElementType(element);
  }
  if (auto function = mlir::dyn_cast<mlir::FunctionType>(type)) {
    auto all = [](mlir::TypeRange types) {
      return llvm::map_to_vector(types, storageType);
    };
    return mlir::FunctionType::get(context, all(function.getInputs()), all(function.getResults()));
  }
  return type;
}

mlir::Attribute storageAttribute(mlir::Attribute attribute) {
  if (auto floating = mlir::dyn_cast<mlir::FloatAttr>(attribute);
      floating && isNarrowFloat(floating.getType()))
    return mlir::IntegerAttr::get(storageType(floating.getType()),
                                  floating.getValue().bitcastToAPInt());
  if (auto integer = mlir::dyn_cast<mlir::IntegerAttr>(attribute))
    return mlir::IntegerAttr::get(storageType(integer.getType()), integer.getValue());
  auto dense = mlir::dyn_cast<mlir::DenseElementsAttr>(attribute);
  return dense ? mlir::Attribute(dense.bitcast(storageType(dense.getElementType()))) : attribute;
}

//===-- Conversions ---------------------------------------------------------------------------===//

// Scalars or vectors at one place; `like` says which.
struct Lanes {
  mlir::OpBuilder &b;
  mlir::Location loc;
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
  Value number(Type type, mlir::TypedAttr value) {
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(type))
      value = mlir::SplatElementsAttr::get(vector, mlir::Attribute(value));
    return make<arith::ConstantOp>(value);
  }
  Value word(int64_t value) {
    return number(i32(), b.getI32IntegerAttr(static_cast<int32_t>(value)));
  }
  Value half(int64_t value) {
    return number(i16(), b.getIntegerAttr(b.getIntegerType(16), llvm::APInt(16, value)));
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
    return at.make<mlir::math::AbsFOp>(v);
  };
  Value away = at.make<arith::CmpFOp>(arith::CmpFPredicate::OGT, magnitude(back), magnitude(x));
  Value inexact = at.make<arith::CmpFOp>(arith::CmpFPredicate::ONE, back, x); // not for NaN
  Value bits = at.bitsOf(near, at.i32());
  Value towardsZero = at.select(away, at.sum(bits, at.word(-1)), bits);
  return at.bitsOf(at.select(inexact, at.either(towardsZero, at.word(1)), bits), at.f32());
}

// The truncations to bf16 that round nothing: of what was widened from it, and of what only picks
// among such numbers or changes signs.
llvm::DenseSet<mlir::Operation *> exactTruncations(llvm::ArrayRef<mlir::Operation *> ops) {
  llvm::DenseSet<mlir::Operation *> truncations;
  llvm::DenseSet<Value> exact; // f32 values that are numbers of bf16
  auto isExact = [&](Value x) {
    mlir::FloatAttr number;
    if (!mlir::matchPattern(x, mlir::m_Constant(&number))) {
      mlir::DenseElementsAttr elements;
      if (!mlir::matchPattern(x, mlir::m_Constant(&elements)) || !elements.isSplat() ||
          !mlir::isa<mlir::FloatType>(elements.getElementType()))
        return exact.contains(x);
      number = elements.getSplatValue<mlir::FloatAttr>();
    }
    bool loses = false;
    llvm::APFloat rounded = number.getValue();
    rounded.convert(llvm::APFloat::BFloat(), llvm::APFloat::rmNearestTiesToEven, &loses);
    return !loses && number.getType().isF32();
  };
  for (mlir::Operation *op : ops) {
    if (op->getNumResults() != 1 || op->getNumOperands() == 0)
      continue;
    Value result = op->getResult(0);
    Type element = mlir::getElementTypeOrSelf(result.getType());
    if (mlir::isa<arith::TruncFOp>(op) && element.isBF16() && isExact(op->getOperand(0)))
      truncations.insert(op);
    bool from = mlir::isa<arith::ExtFOp>(op) &&
                mlir::getElementTypeOrSelf(op->getOperand(0).getType()).isBF16();
    bool keeps =
        mlir::isa<arith::NegFOp, arith::MaximumFOp, arith::MinimumFOp, mlir::math::AbsFOp,
                  mlir::vector::BroadcastOp>(op) &&
        llvm::all_of(op->getOperands(), isExact);
    bool picks = mlir::isa<arith::SelectOp>(op) && isExact(op->getOperand(1)) &&
                 isExact(op->getOperand(2));
    if (element.isF32() && (from || keeps || picks))
      exact.insert(result);
  }
  return truncations;
}

class StorageTypes {
public:
  StorageTypes(mlir::ModuleOp module, bool halfConversions)
      : module_(module), halfConversions_(halfConversions) {}

  mlir::LogicalResult run() {
    llvm::SmallVector<mlir::Operation *> ops;
    module_.walk([&](mlir::Operation *op) { ops.push_back(op); });
    exact_ = exactTruncations(ops);
    for (mlir::Operation *op : ops)
      if (mlir::failed(rewrite(op)))
        return mlir::failure();
    module_.walk([&](mlir::Operation *op) { retype(op); });
    // What only told the types apart.
    llvm::SmallVector<mlir::Operation *> casts;
    module_.walk([&](mlir::Operation *op) {
      if (mlir::isa<arith::BitcastOp, mlir::UnrealizedConversionCastOp>(op) &&
          op->getOperand(0).getType() == op->getResult(0).getType())
        casts.push_back(op);
    });
    for (mlir::Operation *op : casts) {
      op->getResult(0).replaceAllUsesWith(op->getOperand(0));
      op->erase();
    }
    return mlir::success();
  }

private:
  // The bits of a 16-bit float as i16.
  Value bits(Lanes at, Value x) {
    return at.bitsOf(x, at.i16());
  }

  Value widened(Lanes at, Value x) {
    if (!isNarrowFloat(x))
      return x;
    bool isHalf = mlir::getElementTypeOrSelf(x.getType()).isF16();
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
    if (mlir::isa<mlir::VectorType>(x.getType()))
      return x;
    return mlir::LLVM::CallIntrinsicOp::create(at.b, at.loc, x.getType(),
                                               at.b.getStringAttr("llvm.arithmetic.fence"), x)
        .getResult(0);
  }

  Value narrowed(Lanes at, Value x, Type to) {
    if (mlir::getElementTypeOrSelf(x.getType()).isF64())
      x = roundToOdd(at, x);
    bool isHalf = mlir::getElementTypeOrSelf(to).isF16();
    if (isHalf && halfConversions_) {
      Value native = at.make<arith::TruncFOp>(to, fenced(at, x));
      keep_.insert(native.getDefiningOp());
      return at.bitsOf(at.bitsOf(native, at.i16()), to);
    }
    return at.bitsOf(
        at.make<arith::TruncIOp>(at.i16(), isHalf ? toFloat16(at, x) : toBFloat16(at, x)), to);
  }

  // Ops that compute with 16-bit floats, in terms of others.
  mlir::LogicalResult rewrite(mlir::Operation *op) {
    bool touches = llvm::any_of(op->getOperands(), [](Value v) { return isNarrowFloat(v); }) ||
                   llvm::any_of(op->getResults(), [](Value v) { return isNarrowFloat(v); });
    bool computes =
        mlir::isa_and_nonnull<arith::ArithDialect, mlir::math::MathDialect>(op->getDialect());
    if (!touches || !computes ||
        mlir::isa<arith::ConstantOp, arith::SelectOp, arith::BitcastOp>(op))
      return mlir::success();
    mlir::OpBuilder builder(op);
    Value first = op->getOperand(0);
    Lanes at{builder, op->getLoc(), first.getType()};
    Value value =
        llvm::TypeSwitch<mlir::Operation *, Value>(op)
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
            .Case([&](mlir::math::AbsFOp) {
              return at.bitsOf(at.both(bits(at, first), at.half(0x7fff)), first.getType());
            })
            .Case([&](arith::CmpFOp comparison) {
              return at.make<arith::CmpFOp>(comparison.getPredicate(), widened(at, first),
                                            widened(at, op->getOperand(1)));
            })
            .Default([](mlir::Operation *) { return Value(); });
    if (!value)
      return op->emitError("codegen: ")
             << op->getName() << " computes in a 16-bit float, which kernels only load and store";
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
    return mlir::success();
  }

  void retype(mlir::Operation *op) {
    if (keep_.contains(op))
      return;
    for (mlir::OpResult result : op->getResults())
      result.setType(storageType(result.getType()));
    for (mlir::Region &region : op->getRegions())
      for (mlir::BlockArgument argument : region.getArguments())
        argument.setType(storageType(argument.getType()));
    if (auto function = mlir::dyn_cast<mlir::func::FuncOp>(op))
      function.setType(mlir::cast<mlir::FunctionType>(storageType(function.getFunctionType())));
    if (auto constant = mlir::dyn_cast<arith::ConstantOp>(op))
      constant.setValueAttr(mlir::cast<mlir::TypedAttr>(storageAttribute(constant.getValue())));
    if (auto global = mlir::dyn_cast<mlir::memref::GlobalOp>(op)) {
      global.setTypeAttr(mlir::TypeAttr::get(storageType(global.getType())));
      if (mlir::Attribute value = global.getInitialValueAttr())
        global.setInitialValueAttr(storageAttribute(value));
    }
  }

  mlir::ModuleOp module_;
  bool halfConversions_;
  llvm::DenseSet<mlir::Operation *> keep_;  // converts f16 itself
  llvm::DenseSet<mlir::Operation *> exact_; // rounds nothing
};

} // namespace

mlir::LogicalResult lowerStorageTypes(mlir::ModuleOp module, bool halfConversions) {
  return StorageTypes(module, halfConversions).run();
}

} // namespace weft::compiler
