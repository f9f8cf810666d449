// Instantiates the functions of Functions.h with MLIR values, in place of math ops.
#include "compiler/math/Expand.h"

#include <cmath>

#include "compiler/math/Functions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

namespace weft::compiler {
namespace {

using mlir::Type;
using mlir::Value;
namespace arith = mlir::arith;

// `type` with another element type.
Type withElement(Type type, Type element) {
  if (auto vector = mlir::dyn_cast<mlir::VectorType>(type)) return vector.cloneWith(std::nullopt, element);
  return element;
}

struct Place {
  mlir::OpBuilder *b;
  mlir::Location loc;
  template <typename Op, typename... Args> Value make(Args &&...args) const { return Op::create(*b, loc, std::forward<Args>(args)...); }
  Value constant(Type type, mlir::TypedAttr element) const {
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(type)) element = mlir::SplatElementsAttr::get(vector, mlir::Attribute(element));
    return make<arith::ConstantOp>(type, element);
  }
};

struct Mask {
  Place at;
  Value value;
};
Mask both(Mask a, Mask b) { return {a.at, a.at.make<arith::AndIOp>(a.value, b.value)}; }
Mask either(Mask a, Mask b) { return {a.at, a.at.make<arith::OrIOp>(a.value, b.value)}; }
Mask negate(Mask a) {
  mlir::Type type = a.value.getType();
  return {a.at, a.at.make<arith::XOrIOp>(a.value, a.at.constant(type, a.at.b->getIntegerAttr(mlir::getElementTypeOrSelf(type), 1)))};
}

struct Int {
  Place at;
  Value value;
  Int constant(int64_t number) const {
    return {at, at.constant(value.getType(), at.b->getIntegerAttr(mlir::getElementTypeOrSelf(value.getType()), number))};
  }
  Int shiftLeft(int64_t by) const { return {at, at.make<arith::ShLIOp>(value, constant(by).value)}; }
  Int shiftRight(int64_t by) const { return {at, at.make<arith::ShRSIOp>(value, constant(by).value)}; }
  Mask testBit(int bit) const {
    Value masked = at.make<arith::AndIOp>(value, constant(int64_t{1} << bit).value);
    return {at, at.make<arith::CmpIOp>(arith::CmpIPredicate::ne, masked, constant(0).value)};
  }
};
Int operator+(Int a, Int b) { return {a.at, a.at.make<arith::AddIOp>(a.value, b.value)}; }
Int operator-(Int a, Int b) { return {a.at, a.at.make<arith::SubIOp>(a.value, b.value)}; }
Int operator+(Int a, int64_t b) { return a + a.constant(b); }
Int operator-(Int a, int64_t b) { return a - a.constant(b); }

// Lanes of f32 or f64 as Functions.h wants them.
template <int kWidth> struct Float {
  static constexpr int kBits = kWidth;
  using Int = ::weft::compiler::Int;
  Place at;
  Value value;

  Float constant(double number) const {
    return {at, at.constant(value.getType(), at.b->getFloatAttr(mlir::getElementTypeOrSelf(value.getType()), number))};
  }
  Float fromBits(Int i) const { return {at, at.make<arith::BitcastOp>(value.getType(), i.value)}; }
  Float fromInt(Int i) const { return {at, at.make<arith::SIToFPOp>(value.getType(), i.value)}; }
  Float infinity() const { return constant(INFINITY); }
  Float nan() const { return constant(NAN); }

  friend Float operator+(Float a, Float b) { return {a.at, a.at.make<arith::AddFOp>(a.value, b.value)}; }
  friend Float operator-(Float a, Float b) { return {a.at, a.at.make<arith::SubFOp>(a.value, b.value)}; }
  friend Float operator*(Float a, Float b) { return {a.at, a.at.make<arith::MulFOp>(a.value, b.value)}; }
  friend Float operator/(Float a, Float b) { return {a.at, a.at.make<arith::DivFOp>(a.value, b.value)}; }
  friend Float operator-(Float a) { return {a.at, a.at.make<arith::NegFOp>(a.value)}; }
  friend Float fma(Float a, Float b, Float c) { return {a.at, a.at.make<mlir::math::FmaOp>(a.value, b.value, c.value)}; }
  friend Float abs(Float a) { return {a.at, a.at.make<mlir::math::AbsFOp>(a.value)}; }
  friend Float sqrt(Float a) { return {a.at, a.at.make<mlir::math::SqrtOp>(a.value)}; }
  friend Float floor(Float a) { return {a.at, a.at.make<mlir::math::FloorOp>(a.value)}; }
  friend Float copySign(Float a, Float sign) { return {a.at, a.at.make<mlir::math::CopySignOp>(a.value, sign.value)}; }
  friend Mask lt(Float a, Float b) { return {a.at, a.at.make<arith::CmpFOp>(arith::CmpFPredicate::OLT, a.value, b.value)}; }
  friend Mask eq(Float a, Float b) { return {a.at, a.at.make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, a.value, b.value)}; }
  friend Mask unordered(Float a) { return {a.at, a.at.make<arith::CmpFOp>(arith::CmpFPredicate::UNO, a.value, a.value)}; }
  friend Mask signBit(Float a) {
    Int i = bits(a);
    return {a.at, a.at.make<arith::CmpIOp>(arith::CmpIPredicate::slt, i.value, i.constant(0).value)};
  }
  friend Float select(Mask m, Float a, Float b) { return {a.at, a.at.make<arith::SelectOp>(m.value, a.value, b.value)}; }
  friend Int bits(Float a) {
    return {a.at, a.at.make<arith::BitcastOp>(withElement(a.value.getType(), a.at.b->getIntegerType(kWidth)), a.value)};
  }
};

Float<64> widen(Float<32> x) { return {x.at, x.at.make<arith::ExtFOp>(withElement(x.value.getType(), x.at.b->getF64Type()), x.value)}; }
Value narrow(Float<64> x) { return x.at.make<arith::TruncFOp>(withElement(x.value.getType(), x.at.b->getF32Type()), x.value); }

template <int kWidth> Value expand(mlir::Operation *op, Place at) {
  using F = Float<kWidth>;
  auto operand = [&](unsigned i) { return F{at, op->getOperand(i)}; };
  // Single precision through double, where the double's own functions are simpler than an exact single.
  auto wide = [&](auto function) -> Value {
    if constexpr (kWidth == 32) return narrow(function(widen(operand(0))));
    else return function(operand(0)).value;
  };
  return llvm::TypeSwitch<mlir::Operation *, Value>(op)
      .Case([&](mlir::math::ExpOp) { return math::exp(operand(0)).value; })
      .Case([&](mlir::math::LogOp) { return math::log(operand(0)).value; })
      .Case([&](mlir::math::TanhOp) { return math::tanh(operand(0)).value; })
      .Case([&](mlir::math::ErfOp) { return math::erf(operand(0)).value; })
      .Case([&](mlir::math::ErfcOp) { return math::erfc(operand(0)).value; })
      .Case([&](mlir::math::RsqrtOp) { return math::rsqrt(operand(0)).value; })
      .Case([&](mlir::math::SinOp) { return wide([](auto x) { return math::sinQuarter(x, 0); }); })
      .Case([&](mlir::math::CosOp) { return wide([](auto x) { return math::sinQuarter(x, 1); }); })
      .Case([&](mlir::math::PowFOp) -> Value {
        if constexpr (kWidth == 32) return narrow(math::pow(widen(operand(0)), widen(operand(1))));
        else return math::pow(operand(0), operand(1)).value;
      })
      .Default([](mlir::Operation *) { return Value(); });
}

} // namespace

void expandMath(mlir::Operation *root) {
  llvm::SmallVector<mlir::Operation *> found;
  root->walk([&](mlir::Operation *op) {
    if (mlir::isa<mlir::math::MathDialect>(op->getDialect())) found.push_back(op);
  });
  for (mlir::Operation *op : found) {
    mlir::OpBuilder builder(op);
    Place at{&builder, op->getLoc()};
    Type element = mlir::getElementTypeOrSelf(op->getResult(0).getType());
    Value value = element.isF32() ? expand<32>(op, at) : element.isF64() ? expand<64>(op, at) : Value();
    if (!value) continue;
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
  }
}

} // namespace weft::compiler
