// Algebra of elementwise ops: only what holds bit for bit (powers: within their budget), NaN,
// infinities and signed zeros included.
#include "compiler/graph/Simplify.h"

#include <limits>

namespace weft::compiler {

using namespace mlir;

namespace {

bool isFloat(Value value) {
  return isa<FloatType>(typeOf(value).getElementType());
}

LogicalResult replace(Operation *op, Value value, RewriterBase &rewriter) {
  if (value.getType() != op->getResult(0).getType())
    return failure();
  rewriter.replaceOp(op, value);
  return success();
}

// x * 0 of integers, x * -1, x / 2^k.
LogicalResult simplifyArithmetic(Operation *op, RewriterBase &rewriter) {
  Value x = op->getOperand(0), y = op->getOperand(1);
  if (isa<ir::AddOp, ir::MulOp>(op)) {
    // The constant on the right, so that equal ops look equal.
    if (splatOf(x) && !splatOf(y)) {
      rewriter.modifyOpInPlace(op, [&] { op->setOperands({y, x}); });
      return success();
    }
    if (isa<ir::MulOp>(op) && !isFloat(x) && splatOf(y).is(0))
      return replace(op, y, rewriter);
    if (isa<ir::MulOp>(op) && splatOf(y).is(-1)) {
      rewriter.replaceOpWithNewOp<ir::NegOp>(op, x);
      return success();
    }
  }
  if (isa<ir::DivOp>(op)) {
    // A power of two has an exact inverse, and a product takes a quarter of the time of a quotient.
    if (auto floating = dyn_cast_or_null<FloatAttr>(splatOf(y).value)) {
      APFloat inverse(floating.getValue().getSemantics());
      if (floating.getValue().getExactInverse(&inverse)) {
        Value factor = ir::splat(rewriter, op->getLoc(), typeOf(y),
                                 FloatAttr::get(floating.getType(), inverse));
        rewriter.replaceOpWithNewOp<ir::MulOp>(op, x, factor);
        return success();
      }
    }
  }
  return failure();
}

// Powers that a few exact or correctly rounded operations give within pow's budget of 4 ULP, at a
// small part of its time: what people write for squares, cubes, roots and inverse distances. NaN,
// infinities and zeros are pow's.
LogicalResult simplifyPow(ir::PowOp op, RewriterBase &rewriter) {
  Splat exponent = splatOf(op.getRhs());
  if (!exponent)
    return failure();
  if (exponent.is(1))
    return replace(op, op.getLhs(), rewriter);
  ir::Val x(rewriter, op.getLoc(), op.getLhs()), result;
  Type element = x.type().getElementType();
  bool isWide =
      element.isF32() || element.isF64(); // narrower ones would round, and overflow, in between
  auto number = [&](double value) {
    return ir::broadcastTo(x.constant(value, {}), ir::dimsOf(x.type()));
  };
  // The root of -0 is -0, and its odd powers; that power is 0, or +infinity. The power of -infinity
  // is no NaN.
  auto positive = [&] {
    return x + number(0);
  };
  auto root = [&] {
    return ir::sqrt(positive());
  };
  auto unlessMinusInfinity = [&](ir::Val value, double there) {
    return ir::select(ir::compare("eq", x, number(-std::numeric_limits<double>::infinity())),
                      number(there), value);
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (exponent.is(2))
    result = x * x;
  else if (exponent.is(-1) && isFloat(x))
    result = number(1) / x;
  else if (exponent.is(3) && (isWide || !isFloat(x)))
    result = x * x * x;
  else if (!isWide)
    return failure();
  else if (exponent.is(-2)) {
    ir::Val inverse = number(1) / x;
    result = inverse * inverse;
  } else if (exponent.is(0.5))
    result = unlessMinusInfinity(root(), kInfinity);
  else if (exponent.is(1.5))
    result = unlessMinusInfinity(positive() * root(), kInfinity);
  else if (exponent.is(-0.5))
    result = unlessMinusInfinity(number(1) / root(), 0);
  else if (exponent.is(-1.5))
    result = unlessMinusInfinity(number(1) / positive() / root(), 0);
  else
    return failure();
  rewriter.replaceOp(op, result.value());
  return success();
}

// Whether every value of `from` is one of `to`, so that the conversion loses nothing.
bool isExact(Type from, Type to) {
  if (from == to)
    return true;
  if (from.isInteger(1))
    return true;
  auto mantissa = [](Type type) -> unsigned {
    if (auto floating = dyn_cast<FloatType>(type))
      return floating.getFPMantissaWidth();
    return type.isUnsignedInteger() ? type.getIntOrFloatBitWidth()
                                    : type.getIntOrFloatBitWidth() - 1;
  };
  bool toFloat = isa<FloatType>(to);
  if (auto floating = dyn_cast<FloatType>(from)) {
    if (!toFloat)
      return false;
    if (from.isF16() && to.isBF16())
      return false;
    return floating.getWidth() < cast<FloatType>(to).getWidth();
  }
  if (to.isInteger(1))
    return false;
  if (to.isF16())
    return mantissa(from) <= 11; // larger integers overflow or round
  if (toFloat)
    return mantissa(from) <= mantissa(to);
  if (!from.isUnsignedInteger() && to.isUnsignedInteger())
    return false;
  return mantissa(from) <= mantissa(to);
}

LogicalResult simplifyCast(ir::CastOp op, RewriterBase &rewriter) {
  auto inner = op.getInput().getDefiningOp<ir::CastOp>();
  if (!inner)
    return failure();
  Type from = typeOf(inner.getInput()).getElementType(), through = typeOf(inner).getElementType();
  // cast(cast(x)) is one cast where the first one loses nothing. Through i1 every value but 0
  // becomes 1: not that. A float that goes through a wider integer never arises as exact above.
  if (!isExact(from, through))
    return failure();
  // An integer that goes through a float saturates; one cast would wrap.
  Type to = op.getType().getElementType();
  if (isa<FloatType>(through) && isa<IntegerType>(from) && isa<IntegerType>(to) &&
      !to.isInteger(1) && !isExact(from, to))
    return failure();
  rewriter.replaceOpWithNewOp<ir::CastOp>(op, op.getType(), inner.getInput());
  return success();
}

// Of `low < x < high ? x : min(max(x, low), high)`, where either bound may be absent, the second:
// the first has a derivative of its own, and the same value.
bool choosesBetweenEqual(ir::SelectOp op) {
  Value x = op.getOnTrue(), condition = op.getCondition(), value = op.getOnFalse();
  auto upper = value.getDefiningOp<ir::MinimumOp>();
  auto lower = upper && upper.getLhs() == x
                   ? ir::MaximumOp()
                   : (upper ? upper.getLhs() : value).getDefiningOp<ir::MaximumOp>();
  if (lower ? lower.getLhs() != x : !upper || upper.getLhs() != x)
    return false;
  Value above = condition, below = condition;
  if (lower && upper) {
    auto both = condition.getDefiningOp<ir::AndOp>();
    if (!both)
      return false;
    above = both.getLhs();
    below = both.getRhs();
  }
  auto isCompared = [&](Value said, Value bound, ir::Direction direction) {
    auto compare = said.getDefiningOp<ir::CompareOp>();
    return compare && compare.getDirection() == direction && compare.getLhs() == x &&
           compare.getRhs() == bound;
  };
  return (!lower || isCompared(above, lower.getRhs(), ir::Direction::gt)) &&
         (!upper || isCompared(below, upper.getRhs(), ir::Direction::lt));
}

LogicalResult simplifySelect(ir::SelectOp op, RewriterBase &rewriter) {
  if (choosesBetweenEqual(op)) {
    rewriter.replaceOp(op, op.getOnFalse());
    return success();
  }
  if (auto inverted = op.getCondition().getDefiningOp<ir::NotOp>()) {
    rewriter.replaceOpWithNewOp<ir::SelectOp>(op, op.getType(), inverted.getInput(),
                                              op.getOnFalse(), op.getOnTrue());
    return success();
  }
  return failure();
}

// f(broadcast(a), broadcast(b), splat) with one source shape is broadcast(f(a, b, splat)): less to
// compute, and scalars stay scalars.
LogicalResult sinkBroadcast(Operation *op, RewriterBase &rewriter) {
  if (op->getNumOperands() == 0 || op->getNumResults() != 1)
    return failure();
  RankedTensorType small;
  for (Value operand : op->getOperands()) {
    if (splatOf(operand))
      continue;
    auto broadcast = operand.getDefiningOp<ir::BroadcastOp>();
    if (!broadcast)
      return failure();
    auto type = typeOf(broadcast.getInput());
    if (small && ir::dimsOf(small) != ir::dimsOf(type))
      return failure();
    small = type;
  }
  if (!small || small.getNumElements() >= typeOf(op->getResult(0)).getNumElements())
    return failure();
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    auto type = small.clone(typeOf(operand).getElementType());
    if (Splat splat = splatOf(operand))
      operands.push_back(ir::splat(rewriter, op->getLoc(), type, splat.value));
    else
      operands.push_back(operand.getDefiningOp<ir::BroadcastOp>().getInput());
  }
  auto resultType = small.clone(typeOf(op->getResult(0)).getElementType());
  Operation *scalar = rewriter.create(op->getLoc(), op->getName().getIdentifier(), operands,
                                      {resultType}, op->getAttrDictionary().getValue());
  rewriter.replaceOpWithNewOp<ir::BroadcastOp>(op, op->getResult(0).getType(),
                                               scalar->getResult(0));
  return success();
}

// A bias on the rows of a matmul that was reshaped: added before the reshape, where a library call
// can take it in.
LogicalResult biasBeforeReshape(ir::AddOp op, RewriterBase &rewriter) {
  for (int side : {0, 1}) {
    auto reshape = op->getOperand(side).getDefiningOp<ir::ReshapeOp>();
    auto broadcast = op->getOperand(1 - side).getDefiningOp<ir::BroadcastOp>();
    if (!reshape || !broadcast || !reshape->hasOneUse())
      continue;
    auto matmul = reshape.getInput().getDefiningOp<ir::MatmulOp>();
    auto biasType = typeOf(broadcast.getInput());
    if (!matmul || !matmul->hasOneUse() || biasType.getRank() != 1)
      continue;
    auto rows = typeOf(matmul);
    if (rows.getShape().back() != ir::shapeOf(op).back() ||
        rows.getShape().back() != biasType.getShape()[0])
      continue;
    Value bias = ir::BroadcastOp::create(rewriter, broadcast.getLoc(), rows, broadcast.getInput());
    Value sum = ir::AddOp::create(rewriter, op.getLoc(), matmul, bias);
    rewriter.replaceOpWithNewOp<ir::ReshapeOp>(op, op.getType(), sum);
    return success();
  }
  return failure();
}

} // namespace

LogicalResult simplifyElementwise(Operation *op, RewriterBase &rewriter) {
  if (isa<ir::AddOp, ir::MulOp, ir::DivOp>(op)) {
    if (succeeded(simplifyArithmetic(op, rewriter)))
      return success();
    if (auto add = dyn_cast<ir::AddOp>(op); add && succeeded(biasBeforeReshape(add, rewriter)))
      return success();
  } else if (auto pow = dyn_cast<ir::PowOp>(op)) {
    if (succeeded(simplifyPow(pow, rewriter)))
      return success();
  } else if (auto cast = dyn_cast<ir::CastOp>(op)) {
    if (succeeded(simplifyCast(cast, rewriter)))
      return success();
  } else if (auto select = dyn_cast<ir::SelectOp>(op)) {
    if (succeeded(simplifySelect(select, rewriter)))
      return success();
  }
  return sinkBroadcast(op, rewriter);
}

} // namespace weft::compiler
