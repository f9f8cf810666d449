// Derivative rules of the elementwise ops. Where a rule must mask a point at which the formula has
// a pole, it changes the formula's input there, not its output: a masked infinity would come back
// as NaN in the second derivative.
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/rules/Composites.h"

namespace weft::ir {

using namespace mlir;

static Val zeroLike(Val x) {
  return x.constant(0);
}

LogicalResult AbsOp::differentiate(GradContext &ctx) {
  Val x = ctx.operand(0), g = ctx.g(), zero = zeroLike(x);
  ctx.grad(0, select(compare("gt", x, zero), g, select(compare("lt", x, zero), -g, zero)));
  return success();
}

LogicalResult RsqrtOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  Val y = ctx.result(0);
  ctx.grad(0, ctx.g() * (-0.5 * (y * y * y)));
  return success();
}

LogicalResult TanhOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  Val y = ctx.result(0);
  ctx.grad(0, ctx.g() * (1.0 - y * y));
  return success();
}

LogicalResult ErfOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  Val x = ctx.operand(0);
  ctx.grad(0, ctx.g() * (M_2_SQRTPI * exp(-(x * x))));
  return success();
}

LogicalResult ErfcOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  Val x = ctx.operand(0);
  ctx.grad(0, ctx.g() * (-M_2_SQRTPI * exp(-(x * x))));
  return success();
}

LogicalResult SinOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  ctx.grad(0, ctx.g() * cos(ctx.operand(0)));
  return success();
}

LogicalResult CosOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  ctx.grad(0, -(ctx.g() * sin(ctx.operand(0))));
  return success();
}

LogicalResult SigmoidOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  Val y = ctx.result(0);
  ctx.grad(0, ctx.g() * (y * (1.0 - y)));
  return success();
}

LogicalResult ReluOp::differentiate(GradContext &ctx) {
  // "le", not a negated "gt": where the result is NaN the cotangent passes, as in PyTorch.
  Val y = ctx.result(0), zero = zeroLike(y);
  ctx.grad(0, select(compare("le", y, zero), zero, ctx.g()));
  return success();
}

LogicalResult Relu6Op::differentiate(GradContext &ctx) {
  // As ReluOp's: where the result is NaN the cotangent passes.
  Val y = ctx.result(0), zero = zeroLike(y);
  Val below = select(compare("ge", y, y.constant(6)), zero, ctx.g());
  ctx.grad(0, select(compare("le", y, zero), zero, below));
  return success();
}

LogicalResult HardsigmoidOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  Val y = ctx.result(0), zero = zeroLike(y);
  Val below = select(compare("lt", y, y.constant(1)), ctx.g() * (1.0 / 6), zero);
  ctx.grad(0, select(compare("gt", y, zero), below, zero));
  return success();
}

LogicalResult HardswishOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  Val x = ctx.operand(0), g = ctx.g();
  Val between = g * (x * (1.0 / 3) + 0.5);
  Val above = select(compare("ge", x, x.constant(3)), g, between);
  ctx.grad(0, select(compare("le", x, x.constant(-3)), zeroLike(x), above));
  return success();
}

static Val polygamma(Val x, int64_t order) {
  return x.make<PolygammaOp>(x, order);
}
LogicalResult LgammaOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  ctx.grad(0, ctx.g() * polygamma(ctx.operand(0), 0));
  return success();
}
LogicalResult PolygammaOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  IntegerAttr order = ctx.properties<PolygammaOp>().order;
  ctx.grad(0, ctx.g() * polygamma(ctx.operand(0), (order ? order.getInt() : 0) + 1));
  return success();
}
LogicalResult GeluOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  Val x = ctx.operand(0);
  if (ctx.properties<GeluOp>().tanh_approximation &&
      ctx.properties<GeluOp>().tanh_approximation.getValue()) {
    constexpr double kCubic = 0.044715, kInner = M_SQRT2 * M_2_SQRTPI * 0.5; // sqrt(2 / pi)
    Val x2 = x * x;
    Val t = tanh(kInner * (x + kCubic * (x2 * x)));
    Val slope = kInner * ((3 * kCubic) * x2 + 1.0);
    ctx.grad(0, ctx.g() * (0.5 * (t + 1.0) + 0.5 * x * (1.0 - t * t) * slope));
    return success();
  }
  Val cdf = 0.5 * (erf(x * M_SQRT1_2) + 1.0);
  Val pdf = (M_SQRT1_2 * M_2_SQRTPI * 0.5) * exp(-0.5 * (x * x)); // exp(-x^2 / 2) / sqrt(2 pi)
  ctx.grad(0, ctx.g() * (cdf + x * pdf));
  return success();
}

LogicalResult MulOp::differentiate(GradContext &ctx) {
  if (ctx.needs(0))
    ctx.grad(0, ctx.g() * ctx.operand(1));
  if (ctx.needs(1))
    ctx.grad(1, ctx.g() * ctx.operand(0));
  return success();
}

LogicalResult DivOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  Val quotient = ctx.g() / ctx.operand(1);
  ctx.grad(0, quotient);
  if (ctx.needs(1))
    ctx.grad(1, -(quotient * ctx.result(0)));
  return success();
}

LogicalResult RemOp::differentiate(GradContext &ctx) {
  ctx.grad(0, ctx.g());
  if (ctx.needs(1)) {
    // A quotient in 16 bits would round up to the next integer.
    ctx.roundOnce();
    ctx.grad(1, -(ctx.g() * floor(ctx.operand(0) / ctx.operand(1))));
  }
  return success();
}

LogicalResult PowOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  Val x = ctx.operand(0), y = ctx.operand(1), g = ctx.g(), one = x.constant(1);
  auto power = [&](Val base, Val exponent) {
    return ctx.make<PowOp>(base, exponent);
  };
  if (ctx.needs(0)) {
    // d/dx x^y = y x^(y-1). For y = 0 it is 0 for every x, NaN included: there 0 * x^-1 needs an x
    // that is neither 0 nor NaN.
    Val base =
        select(compare("eq", y, zeroLike(y)), select(compare("gt", x * x, zeroLike(x)), x, one), x);
    ctx.grad(0, g * (y * power(base, y - 1.0)));
  }
  if (ctx.needs(1)) {
    // d/dy x^y = x^y log(x); 0 for x = 0 and y >= 0, where log(1) stands in for log(0).
    Val zero = zeroLike(x);
    Val base = select(compare("ge", y, zero), select(compare("eq", x, zero), one, x), x);
    ctx.grad(1, g * (power(x, y) * log(base)));
  }
  return success();
}

LogicalResult Atan2Op::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  Val y = ctx.operand(0), x = ctx.operand(1), square = x * x + y * y, g = ctx.g();
  Val origin = compare("eq", square, zeroLike(square));
  Val scale = select(origin, zeroLike(g), g) / select(origin, square.constant(1), square);
  if (ctx.needs(0))
    ctx.grad(0, scale * x);
  if (ctx.needs(1))
    ctx.grad(1, -(scale * y));
  return success();
}

// The cotangent where `mine` wins, half of it at a tie, 0 where it loses; to both where one is NaN,
// as in PyTorch.
static Val winnersShare(Val g, Val mine, Val other, StringRef loses) {
  return select(compare(loses, mine, other), zeroLike(g),
                select(compare("eq", mine, other), g * 0.5, g));
}

LogicalResult MinimumOp::differentiate(GradContext &ctx) {
  if (ctx.needs(0))
    ctx.grad(0, winnersShare(ctx.g(), ctx.operand(0), ctx.operand(1), "gt"));
  if (ctx.needs(1))
    ctx.grad(1, winnersShare(ctx.g(), ctx.operand(1), ctx.operand(0), "gt"));
  return success();
}

LogicalResult MaximumOp::differentiate(GradContext &ctx) {
  if (ctx.needs(0))
    ctx.grad(0, winnersShare(ctx.g(), ctx.operand(0), ctx.operand(1), "lt"));
  if (ctx.needs(1))
    ctx.grad(1, winnersShare(ctx.g(), ctx.operand(1), ctx.operand(0), "lt"));
  return success();
}

LogicalResult SelectOp::differentiate(GradContext &ctx) {
  Val condition = ctx.operand(0), g = ctx.g();
  if (ctx.needs(1))
    ctx.grad(1, select(condition, g, zeroLike(g)));
  if (ctx.needs(2))
    ctx.grad(2, select(condition, zeroLike(g), g));
  return success();
}

LogicalResult CastOp::differentiate(GradContext &ctx) {
  // A cast to an integer or bool is constant almost everywhere: no gradient.
  if (isa<FloatType>(ctx.resultType(0).getElementType()))
    ctx.grad(0, cast(ctx.g(), ctx.operandType(0).getElementType()));
  return success();
}

LogicalResult TransferOp::differentiate(GradContext &ctx) {
  const Properties &p = ctx.properties<TransferOp>();
  Val g = ctx.g();
  ctx.grad(0, ctx.make<TransferOp>(g.type(), g, p.to, p.from));
  return success();
}

} // namespace weft::ir
