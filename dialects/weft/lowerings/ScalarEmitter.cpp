// The scalar functions of elementwise ops in arith and math ops, bit for bit what their records say
// for NaN, infinities, signed zeros and integer corner cases. bf16 and f16 are computed in f32 and
// rounded once. arith has no unsigned types: what it computes of them goes through signless ones,
// by unrealized casts that codegen drops (compiler/codegen/StorageTypes.h).
#include "dialects/weft/ir/Weft.h"

#include "dialects/weft/ir/Attributes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"

namespace weft::ir {

using namespace mlir;

namespace math = mlir::math;

static bool isFloat(Value x) {
  return isa<FloatType>(x.getType());
}
static bool isNarrowFloat(Type type) {
  return type.isF16() || type.isBF16();
}
static unsigned widthOf(Type type) {
  return type.getIntOrFloatBitWidth();
}

static Value retyped(OpBuilder &b, Location loc, Value x, Type type) {
  if (x.getType() == type)
    return x;
  return UnrealizedConversionCastOp::create(b, loc, type, x).getResult(0);
}
static Type signlessType(Type type) {
  return type.isUnsignedInteger() ? Type(IntegerType::get(type.getContext(), widthOf(type))) : type;
}
// x as arith takes it.
static Value signless(OpBuilder &b, Location loc, Value x) {
  return retyped(b, loc, x, signlessType(x.getType()));
}

Value scalarConstant(OpBuilder &b, Location loc, TypedAttr value) {
  Type type = value.getType();
  if (!type.isUnsignedInteger())
    return arith::ConstantOp::create(b, loc, value);
  auto plain = IntegerAttr::get(signlessType(type), cast<IntegerAttr>(value).getValue());
  return retyped(b, loc, arith::ConstantOp::create(b, loc, plain), type);
}

Value ScalarEmitter::constant(Type type, double value) {
  if (auto floating = dyn_cast<FloatType>(type))
    return arith::ConstantOp::create(b_, loc_, FloatAttr::get(floating, value));
  APInt bits = APInt(64, saturating_int64(value)).sextOrTrunc(widthOf(type));
  return scalarConstant(b_, loc_, IntegerAttr::get(type, bits));
}

Value emitWidened(OpBuilder &b, Location loc, ValueRange args,
                  function_ref<Value(ValueRange)> emit) {
  Type type = args[0].getType();
  if (!isNarrowFloat(type))
    return emit(args);
  SmallVector<Value, 2> wide;
  for (Value arg : args)
    wide.push_back(arith::ExtFOp::create(b, loc, b.getF32Type(), arg));
  return arith::TruncFOp::create(b, loc, type, emit(ValueRange(wide)));
}

template <typename Op> static Value unaryFloat(OpBuilder &b, Location loc, Value x) {
  return emitWidened(b, loc, x,
                     [&](ValueRange args) -> Value { return Op::create(b, loc, args[0]); });
}

template <typename IntOp> static Value integers(OpBuilder &b, Location loc, Value x, Value y) {
  return retyped(b, loc, IntOp::create(b, loc, signless(b, loc, x), signless(b, loc, y)),
                 x.getType());
}

template <typename FloatOp, typename IntOp>
static Value binary(OpBuilder &b, Location loc, Value x, Value y) {
  if (!isFloat(x))
    return integers<IntOp>(b, loc, x, y);
  return emitWidened(b, loc, {x, y}, [&](ValueRange args) -> Value {
    return FloatOp::create(b, loc, args[0], args[1]);
  });
}

Value ScalarEmitter::neg(Value x) {
  if (isFloat(x))
    return arith::NegFOp::create(b_, loc_, x);
  return integers<arith::SubIOp>(b_, loc_, constant(x.getType(), 0), x);
}

Value ScalarEmitter::abs(Value x) {
  if (isFloat(x))
    return math::AbsFOp::create(b_, loc_, x);
  if (x.getType().isUnsignedInteger())
    return x;
  Value negative =
      arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::slt, x, constant(x.getType(), 0));
  return arith::SelectOp::create(b_, loc_, negative, neg(x), x);
}

Value ScalarEmitter::exp(Value x) {
  return unaryFloat<math::ExpOp>(b_, loc_, x);
}
Value ScalarEmitter::exp2(Value x) {
  return unaryFloat<math::Exp2Op>(b_, loc_, x);
}
Value ScalarEmitter::log(Value x) {
  return unaryFloat<math::LogOp>(b_, loc_, x);
}
Value ScalarEmitter::expm1(Value x) {
  return unaryFloat<math::ExpM1Op>(b_, loc_, x);
}
Value ScalarEmitter::log1p(Value x) {
  return unaryFloat<math::Log1pOp>(b_, loc_, x);
}
Value ScalarEmitter::sin(Value x) {
  return unaryFloat<math::SinOp>(b_, loc_, x);
}
Value ScalarEmitter::cos(Value x) {
  return unaryFloat<math::CosOp>(b_, loc_, x);
}
Value ScalarEmitter::sqrt(Value x) {
  return unaryFloat<math::SqrtOp>(b_, loc_, x);
}
Value ScalarEmitter::rsqrt(Value x) {
  return unaryFloat<math::RsqrtOp>(b_, loc_, x);
}
Value ScalarEmitter::tanh(Value x) {
  return unaryFloat<math::TanhOp>(b_, loc_, x);
}
Value ScalarEmitter::erf(Value x) {
  return unaryFloat<math::ErfOp>(b_, loc_, x);
}
Value ScalarEmitter::erfc(Value x) {
  return unaryFloat<math::ErfcOp>(b_, loc_, x);
}

// A mark that compiler/math/Expand.h knows.
static Value marked(Value value, StringRef mark) {
  value.getDefiningOp()->setAttr(mark, UnitAttr::get(value.getContext()));
  return value;
}

Value ScalarEmitter::sigmoid(Value x) {
  return emitWidened(b_, loc_, x, [&](ValueRange args) -> Value {
    // With e = exp(-|x|), which cannot overflow: 1 / (1 + e) from 0 on, e / (1 + e) below, accurate
    // down to denormals.
    Value one = constant(args[0].getType(), 1);
    Value e = marked(exp(neg(abs(args[0]))), kNonPositiveAttr);
    Value below = arith::CmpFOp::create(b_, loc_, arith::CmpFPredicate::OLT, args[0],
                                        constant(args[0].getType(), 0));
    return div(arith::SelectOp::create(b_, loc_, below, e, one), add(one, e));
  });
}

Value ScalarEmitter::sign(Value x) {
  Type type = x.getType();
  Value zero = constant(type, 0);
  Value below = select(compare(Direction::lt, x, zero), constant(type, -1), zero);
  return select(compare(Direction::gt, x, zero), constant(type, 1), below);
}

Value ScalarEmitter::floor(Value x) {
  return isFloat(x) ? unaryFloat<math::FloorOp>(b_, loc_, x) : x;
}
Value ScalarEmitter::ceil(Value x) {
  return isFloat(x) ? unaryFloat<math::CeilOp>(b_, loc_, x) : x;
}
Value ScalarEmitter::round(Value x) {
  return isFloat(x) ? unaryFloat<math::RoundEvenOp>(b_, loc_, x) : x;
}

Value ScalarEmitter::relu(Value x) {
  if (x.getType().isUnsignedInteger())
    return x;
  Value zero = constant(x.getType(), 0);
  // Unordered: NaN stays.
  Value keep = isFloat(x)
                   ? Value(arith::CmpFOp::create(b_, loc_, arith::CmpFPredicate::UGT, x, zero))
                   : Value(arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::sgt, x, zero));
  return arith::SelectOp::create(b_, loc_, keep, x, zero);
}

Value ScalarEmitter::relu6(Value x) {
  Value above = relu(x), six = constant(x.getType(), 6);
  return select(compare(Direction::ge, above, six), six, above); // NaN stays
}
Value ScalarEmitter::hardsigmoid(Value x) {
  Type type = x.getType();
  return div(relu6(add(x, constant(type, 3))), constant(type, 6));
}

// y * (1 + relative) where -20 < x < -1, else y: below -1 both forms of gelu magnify the rounding
// of their argument, above they do not, and below -20 the result is 0.
static Value correctTail(ScalarEmitter &s, OpBuilder &b, Location loc, Value x, Value y,
                         Value relative) {
  Type type = x.getType();
  Value distance = s.abs(s.add(x, s.constant(type, 10.5)));
  Value inTail =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, distance, s.constant(type, 9.5));
  return s.select(inTail, math::FmaOp::create(b, loc, relative, y, y), y);
}

// The part of a number that its f32 constant leaves out.
static double lowPart(double number) {
  return number - static_cast<double>(static_cast<float>(number));
}

// x Phi(x) with Phi(x) = 0.5 erfc(z), z = -x / sqrt(2), since 1 + erf(-z) = erfc(z) does not
// cancel. The rounding of z grows to 185 ULP in the product of singles, which is marked for the
// function that compiler/math has for it.
static Value geluErf(ScalarEmitter &s, OpBuilder &b, Location loc, Value x) {
  Type type = x.getType();
  Value erfc = math::ErfcOp::create(b, loc, s.mul(x, s.constant(type, -M_SQRT1_2))),
        half = s.constant(type, 0.5);
  if (!type.isF32())
    return s.mul(s.mul(half, x), erfc);
  // An fma for a product: the operands of arith.mulf change places where one is a constant.
  return marked(math::FmaOp::create(b, loc, x, s.mul(half, erfc), s.constant(type, -0.0)),
                kGeluAttr);
}

// x sigmoid(w) with w = x (a + b x^2), since 0.5 (1 + tanh(w / 2)) = sigmoid(w) does not cancel.
static Value geluTanh(ScalarEmitter &s, OpBuilder &b, Location loc, Value x) {
  constexpr double a = 2 * 0.79788456080286535588, c = a * 0.044715;
  Type type = x.getType();
  Value highA = s.constant(type, a), highC = s.constant(type, c);
  Value square = s.mul(x, x), cubic = s.mul(highC, square), p = s.add(highA, cubic),
        w = s.mul(x, p);
  Value sigmoid = s.sigmoid(w), y = s.mul(x, sigmoid);
  if (!type.isF32())
    return y;
  // w + wLow is w to twice the precision: each step's rounding error, by FMA for products and by
  // Knuth's sum. Then sigmoid(w + wLow) = sigmoid(w) (1 + wLow (1 - sigmoid(w))). Without it the
  // error grows to 198 ULP.
  auto productError = [&](Value f, Value g, Value product) -> Value {
    return math::FmaOp::create(b, loc, f, g, s.neg(product));
  };
  Value added = s.sub(p, highA);
  Value sumError = s.add(s.sub(highA, s.sub(p, added)), s.sub(cubic, added));
  Value constants =
      s.add(s.mul(s.constant(type, lowPart(c)), square), s.constant(type, lowPart(a)));
  Value products = s.add(productError(highC, square, cubic),
                         s.add(s.mul(highC, productError(x, x, square)), constants));
  Value wLow = s.add(productError(x, p, w), s.mul(x, s.add(sumError, products)));
  return correctTail(s, b, loc, x, y, s.mul(wLow, s.sub(s.constant(type, 1), sigmoid)));
}

Value ScalarEmitter::gelu(Value x, bool tanhApproximation) {
  return emitWidened(b_, loc_, x, [&](ValueRange args) -> Value {
    return tanhApproximation ? geluTanh(*this, b_, loc_, args[0])
                             : geluErf(*this, b_, loc_, args[0]);
  });
}

Value ScalarEmitter::bitNot(Value x) {
  return bitXor(x, constant(x.getType(), -1));
}
Value ScalarEmitter::add(Value x, Value y) {
  return binary<arith::AddFOp, arith::AddIOp>(b_, loc_, x, y);
}
Value ScalarEmitter::sub(Value x, Value y) {
  return binary<arith::SubFOp, arith::SubIOp>(b_, loc_, x, y);
}
Value ScalarEmitter::mul(Value x, Value y) {
  return binary<arith::MulFOp, arith::MulIOp>(b_, loc_, x, y);
}

Value ScalarEmitter::div(Value x, Value y) {
  Type type = x.getType();
  if (isFloat(x))
    return binary<arith::DivFOp, arith::DivSIOp>(b_, loc_, x, y);
  if (type.isUnsignedInteger()) {
    Value none = constant(type, 0), byZero = compare(Direction::eq, y, none);
    return select(byZero, none,
                  integers<arith::DivUIOp>(b_, loc_, x, select(byZero, constant(type, 1), y)));
  }
  // The two divisors for which the machine's division is undefined, for some x, are divided by 1
  // instead.
  Value zero = constant(type, 0);
  Value byZero = arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::eq, y, zero);
  Value byMinusOne =
      arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::eq, y, constant(type, -1));
  Value special = arith::OrIOp::create(b_, loc_, byZero, byMinusOne);
  Value quotient = arith::DivSIOp::create(
      b_, loc_, x, arith::SelectOp::create(b_, loc_, special, constant(type, 1), y));
  Value specialQuotient = arith::SelectOp::create(b_, loc_, byZero, zero, neg(x));
  return arith::SelectOp::create(b_, loc_, special, specialQuotient, quotient);
}

Value ScalarEmitter::rem(Value x, Value y) {
  Type type = x.getType();
  // What truncating division leaves has the sign of x; where that is not the sign of y, y is added.
  auto floored = [&](Value left, Value by) {
    Type wide = left.getType();
    Value zero = constant(wide, 0);
    Value differs = arith::XOrIOp::create(b_, loc_, compare(Direction::lt, left, zero),
                                          compare(Direction::lt, by, zero));
    Value nonzero =
        isFloat(left)
            ? Value(arith::CmpFOp::create(b_, loc_, arith::CmpFPredicate::ONE, left, zero))
            : Value(arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::ne, left, zero));
    return select(arith::AndIOp::create(b_, loc_, differs, nonzero), add(left, by), left);
  };
  if (isFloat(x))
    return emitWidened(b_, loc_, {x, y}, [&](ValueRange args) -> Value {
      return floored(arith::RemFOp::create(b_, loc_, args[0], args[1]), args[1]);
    });
  if (type.isUnsignedInteger()) {
    Value byNone = compare(Direction::eq, y, constant(type, 0));
    return integers<arith::RemUIOp>(b_, loc_, x, select(byNone, constant(type, 1), y));
  }
  // By 0 and by -1 the remainder is 0, as by 1, for which the machine's division is defined.
  Value zero = constant(type, 0);
  Value byZero = arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::eq, y, zero);
  Value byMinusOne =
      arith::CmpIOp::create(b_, loc_, arith::CmpIPredicate::eq, y, constant(type, -1));
  Value by = arith::SelectOp::create(b_, loc_, arith::OrIOp::create(b_, loc_, byZero, byMinusOne),
                                     constant(type, 1), y);
  return floored(arith::RemSIOp::create(b_, loc_, x, by), by);
}

// Wraps. Negative exponents give what rounds towards zero: 0, but 1 and -1 for these bases.
// Integers of less than 32 bits are computed in 32 bits: machines multiply narrow integers by way
// of wider ones.
Value ScalarEmitter::powi(Value x, Value y) {
  Type type = x.getType(), narrow = signless(b_, loc_, x).getType(),
       wide = b_.getIntegerType(std::max(widthOf(type), 32u));
  bool isUnsigned = type.isUnsignedInteger();
  Value one = constant(type, 1), zero = constant(type, 0);
  auto widened = [&](Value value) -> Value {
    value = signless(b_, loc_, value);
    if (narrow == wide)
      return value;
    return isUnsigned ? arith::ExtUIOp::create(b_, loc_, wide, value).getResult()
                      : arith::ExtSIOp::create(b_, loc_, wide, value).getResult();
  };
  Value exponent = isUnsigned ? y : select(compare(Direction::lt, y, zero), zero, y);
  Value result = math::IPowIOp::create(b_, loc_, widened(x), widened(exponent));
  if (narrow != wide)
    result = arith::TruncIOp::create(b_, loc_, narrow, result);
  result = retyped(b_, loc_, result, type);
  if (isUnsigned)
    return result;
  Value odd = arith::TruncIOp::create(b_, loc_, b_.getI1Type(), y);
  Value ofMinusOne = select(odd, constant(type, -1), one);
  Value inverse = select(compare(Direction::eq, x, one), one,
                         select(compare(Direction::eq, x, constant(type, -1)), ofMinusOne, zero));
  return select(compare(Direction::lt, y, zero), inverse, result);
}

Value ScalarEmitter::pow(Value x, Value y) {
  if (!isFloat(x))
    return powi(x, y);
  return emitWidened(b_, loc_, {x, y}, [&](ValueRange args) -> Value {
    return math::PowFOp::create(b_, loc_, args[0], args[1]);
  });
}

Value ScalarEmitter::atan2(Value y, Value x) {
  return emitWidened(b_, loc_, {y, x}, [&](ValueRange args) -> Value {
    return math::Atan2Op::create(b_, loc_, args[0], args[1]);
  });
}

// Of bools, where true is the larger one, they are `and` and `or`: as a signed number, true is -1.
Value ScalarEmitter::minimum(Value x, Value y) {
  if (x.getType().isInteger(1))
    return bitAnd(x, y);
  if (x.getType().isUnsignedInteger())
    return integers<arith::MinUIOp>(b_, loc_, x, y);
  return binary<arith::MinimumFOp, arith::MinSIOp>(b_, loc_, x, y);
}
Value ScalarEmitter::maximum(Value x, Value y) {
  if (x.getType().isInteger(1))
    return bitOr(x, y);
  if (x.getType().isUnsignedInteger())
    return integers<arith::MaxUIOp>(b_, loc_, x, y);
  return binary<arith::MaximumFOp, arith::MaxSIOp>(b_, loc_, x, y);
}
Value ScalarEmitter::bitAnd(Value x, Value y) {
  return integers<arith::AndIOp>(b_, loc_, x, y);
}
Value ScalarEmitter::bitOr(Value x, Value y) {
  return integers<arith::OrIOp>(b_, loc_, x, y);
}
Value ScalarEmitter::bitXor(Value x, Value y) {
  return integers<arith::XOrIOp>(b_, loc_, x, y);
}

// By a negative count, which is a large one as an unsigned number, and by the width or more the
// machine's shifts are undefined: there it is 0.
template <typename Shift>
static Value shiftOrZero(ScalarEmitter &s, OpBuilder &b, Location loc, Value x, Value y) {
  Type type = signlessType(x.getType());
  Value count = signless(b, loc, y), none = s.constant(type, 0);
  Value isBelow = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, count,
                                        s.constant(type, widthOf(type)));
  Value shifted = Shift::create(b, loc, signless(b, loc, x), s.select(isBelow, count, none));
  return retyped(b, loc, s.select(isBelow, shifted, none), x.getType());
}
Value ScalarEmitter::shiftLeft(Value x, Value y) {
  return shiftOrZero<arith::ShLIOp>(*this, b_, loc_, x, y);
}
Value ScalarEmitter::shiftRight(Value x, Value y) {
  Type type = x.getType();
  if (type.isUnsignedInteger())
    return shiftOrZero<arith::ShRUIOp>(*this, b_, loc_, x, y);
  // The last place but one leaves the sign, as all places beyond it would.
  Value most = constant(type, widthOf(type) - 1);
  return arith::ShRSIOp::create(b_, loc_, x, arith::MinUIOp::create(b_, loc_, y, most));
}

//===-- Comparison and conversion -------------------------------------------------------------===//

Value ScalarEmitter::compare(Direction direction, Value x, Value y) {
  using F = arith::CmpFPredicate;
  using I = arith::CmpIPredicate;
  // In the order of Direction: eq, ne, lt, le, gt, ge. Only `ne` holds for NaN.
  static constexpr F floats[] = {F::OEQ, F::UNE, F::OLT, F::OLE, F::OGT, F::OGE};
  static constexpr I signeds[] = {I::eq, I::ne, I::slt, I::sle, I::sgt, I::sge};
  static constexpr I unsigneds[] = {I::eq, I::ne, I::ult, I::ule, I::ugt, I::uge}; // bools as well
  auto row = static_cast<unsigned>(direction);
  if (isFloat(x))
    return arith::CmpFOp::create(b_, loc_, floats[row], x, y);
  bool isUnsigned = x.getType().isInteger(1) || x.getType().isUnsignedInteger();
  return arith::CmpIOp::create(b_, loc_, (isUnsigned ? unsigneds : signeds)[row],
                               signless(b_, loc_, x), signless(b_, loc_, y));
}

Value ScalarEmitter::select(Value condition, Value onTrue, Value onFalse) {
  return arith::SelectOp::create(b_, loc_, condition, onTrue, onFalse);
}

// Rounds towards zero and saturates; NaN gives 0. Out of range the machine's conversion is
// undefined, so it never sees such a value.
static Value floatToInt(ScalarEmitter &s, OpBuilder &b, Location loc, Value x, Type to) {
  if (isNarrowFloat(x.getType()))
    x = arith::ExtFOp::create(b, loc, b.getF32Type(), x);
  Type from = x.getType();
  unsigned width = widthOf(to);
  bool isUnsigned = to.isUnsignedInteger();
  double bound = std::ldexp(1.0, isUnsigned ? width : width - 1);
  // Both bounds are exact in the float type; what lies strictly between them truncates to a value
  // that fits.
  Value large =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGE, x, s.constant(from, bound));
  Value small = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLE, x,
                                      s.constant(from, isUnsigned ? 0 : -bound));
  Value nan = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, x, x);
  Value outside = arith::OrIOp::create(b, loc, arith::OrIOp::create(b, loc, large, small), nan);
  Value inside = arith::SelectOp::create(b, loc, outside, s.constant(from, 0), x);
  Type plain = signlessType(to);
  Value converted = isUnsigned ? Value(arith::FPToUIOp::create(b, loc, plain, inside))
                               : Value(arith::FPToSIOp::create(b, loc, plain, inside));
  auto limit = [&](const APInt &value) -> Value {
    return arith::ConstantOp::create(b, loc, IntegerAttr::get(plain, value));
  };
  Value greatest = limit(isUnsigned ? APInt::getMaxValue(width) : APInt::getSignedMaxValue(width));
  Value least = limit(isUnsigned ? APInt::getZero(width) : APInt::getSignedMinValue(width));
  converted = arith::SelectOp::create(b, loc, large, greatest, converted);
  return retyped(b, loc, arith::SelectOp::create(b, loc, small, least, converted), to);
}

Value ScalarEmitter::cast(Value x, Type to) {
  Type from = x.getType();
  if (from == to)
    return x;
  bool toFloat = isa<FloatType>(to);
  if (to.isInteger(1))
    return isFloat(x) ? Value(arith::CmpFOp::create(b_, loc_, arith::CmpFPredicate::UNE, x,
                                                    constant(from, 0)))
                      : compare(Direction::ne, x, constant(from, 0));
  if (isFloat(x) && toFloat) {
    if (widthOf(from) == widthOf(to))
      x = arith::ExtFOp::create(b_, loc_, b_.getF32Type(), x); // bf16 <-> f16
    return widthOf(x.getType()) < widthOf(to) ? Value(arith::ExtFOp::create(b_, loc_, to, x))
                                              : Value(arith::TruncFOp::create(b_, loc_, to, x));
  }
  if (isFloat(x))
    return floatToInt(*this, b_, loc_, x, to);
  bool isUnsigned = from.isInteger(1) || from.isUnsignedInteger();
  x = signless(b_, loc_, x);
  if (toFloat && isNarrowFloat(to)) {
    // Through a float that holds the integer, or is so much finer than the result that rounding
    // twice differs from once only where an int64 beyond 2^53 lies next to a tie; reference
    // evaluation goes the same way.
    Type wide = widthOf(from) <= 16 ? Type(b_.getF32Type()) : Type(b_.getF64Type());
    x = isUnsigned ? Value(arith::UIToFPOp::create(b_, loc_, wide, x))
                   : Value(arith::SIToFPOp::create(b_, loc_, wide, x));
    return arith::TruncFOp::create(b_, loc_, to, x);
  }
  if (toFloat) {
    if (isUnsigned)
      return arith::UIToFPOp::create(b_, loc_, to, x);
    return arith::SIToFPOp::create(b_, loc_, to, x);
  }
  Type plain = signlessType(to);
  if (widthOf(from) > widthOf(to))
    x = arith::TruncIOp::create(b_, loc_, plain, x);
  else if (widthOf(from) < widthOf(to))
    x = isUnsigned ? Value(arith::ExtUIOp::create(b_, loc_, plain, x))
                   : Value(arith::ExtSIOp::create(b_, loc_, plain, x));
  return retyped(b_, loc_, x, to); // of one width: int8 and uint8
}

//===-- Ops whose records have no scalar text -------------------------------------------------===//

Value CompareOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  return ScalarEmitter(b, loc).compare(getDirection(), args[0], args[1]);
}
Value SelectOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  return ScalarEmitter(b, loc).select(args[0], args[1], args[2]);
}
Value CastOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  return ScalarEmitter(b, loc).cast(args[0], getType().getElementType());
}

Value TransferOp::emitScalar(OpBuilder &, Location, ValueRange args) {
  return args[0];
}

Value CheckIndexOp::emitScalar(OpBuilder &b, Location loc, ValueRange args) {
  Type type = args[0].getType();
  auto constant = [&](int64_t n) -> Value {
    return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, n));
  };
  // Unsigned: negative indices are out of range, too. A size that the type cannot hold leaves only
  // these to find.
  int64_t most = llvm::maxIntN(type.getIntOrFloatBitWidth());
  Value inside =
      int64_t(getSize()) > most
          ? Value(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, args[0], constant(0)))
          : Value(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, args[0],
                                        constant(getSize())));
  // One that the type does not hold is none of the indices.
  if (std::optional<uint64_t> ignored = getIgnoreIndex();
      ignored && llvm::isIntN(type.getIntOrFloatBitWidth(), int64_t(*ignored))) {
    Value skipped =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, args[0], constant(*ignored));
    inside = arith::OrIOp::create(b, loc, inside, skipped);
  }
  cf::AssertOp::create(b, loc, inside, "index out of range");
  return args[0];
}

double gelu(double x, bool tanhApproximation) {
  if (!tanhApproximation)
    return 0.5 * x * std::erfc(-x * M_SQRT1_2);
  // 0.5 * (1 + tanh(u)) = 1 / (1 + exp(-2 u)), which does not cancel below 0. With exp(2 u) there,
  // which does not overflow.
  double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
  if (u < 0)
    return x * (std::exp(2.0 * u) / (1.0 + std::exp(2.0 * u)));
  return x / (1.0 + std::exp(-2.0 * u));
}

} // namespace weft::ir
