// Derivative rules of convolutions, pooling and batch normalization.
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/rules/Composites.h"

namespace weft::ir {

using namespace mlir;

//===-- Convolution ---------------------------------------------------------------------------===//
// sum over all products of input, weight and gradient is linear in each of the three, and each of
// the three ops is its derivative by one of them; so all their derivatives are these ops again.

template <typename Properties> static Val convolve(Val input, Val weight, const Properties &p) {
  return input.make<Conv2dOp>(input, weight, p.strides, p.padding, p.dilation, p.groups);
}
template <typename Properties>
static Val byInput(Val gradient, Val weight, RankedTensorType type, const Properties &p) {
  return gradient.make<Conv2dInputGradientOp>(type, gradient, weight, p.strides, p.padding,
                                              p.dilation, p.groups);
}
template <typename Properties>
static Val byWeight(Val input, Val gradient, RankedTensorType type, const Properties &p) {
  return input.make<Conv2dWeightGradientOp>(type, input, gradient, p.strides, p.padding, p.dilation,
                                            p.groups);
}

LogicalResult Conv2dOp::differentiate(GradContext &ctx) {
  const auto &p = ctx.properties<Conv2dOp>();
  if (ctx.needs(0))
    ctx.grad(0, byInput(ctx.g(), ctx.operand(1), ctx.operandType(0), p));
  if (ctx.needs(1))
    ctx.grad(1, byWeight(ctx.operand(0), ctx.g(), ctx.operandType(1), p));
  return success();
}

LogicalResult Conv2dInputGradientOp::differentiate(GradContext &ctx) {
  const auto &p = ctx.properties<Conv2dInputGradientOp>();
  if (ctx.needs(0))
    ctx.grad(0, convolve(ctx.g(), ctx.operand(1), p));
  if (ctx.needs(1))
    ctx.grad(1, byWeight(ctx.g(), ctx.operand(0), ctx.operandType(1), p));
  return success();
}

LogicalResult Conv2dWeightGradientOp::differentiate(GradContext &ctx) {
  const auto &p = ctx.properties<Conv2dWeightGradientOp>();
  if (ctx.needs(0))
    ctx.grad(0, byInput(ctx.operand(1), ctx.g(), ctx.operandType(0), p));
  if (ctx.needs(1))
    ctx.grad(1, convolve(ctx.operand(0), ctx.g(), p));
  return success();
}

//===-- Pooling -------------------------------------------------------------------------------===//

LogicalResult MaxPool2dOp::differentiate(GradContext &ctx) {
  if (!ctx.hasG(0))
    return success();
  const auto &p = ctx.properties<MaxPool2dOp>();
  ctx.grad(0, ctx.make<MaxPool2dGradientOp>(ctx.operandType(0), ctx.g(0), ctx.result(1), p.kernel,
                                            p.strides, p.padding, p.dilation, p.ceil_mode));
  return success();
}

// Reads what its forward op would add to.
LogicalResult MaxPool2dGradientOp::differentiate(GradContext &ctx) {
  Dims image = dimsOf(ctx.resultType(0)), pooled = dimsOf(ctx.operandType(0));
  Val indices = ctx.operand(1);
  Val flat = reshapeTo(ctx.g(), {image[0], image[1], image[2].size * image[3].size});
  Val at = reshapeTo(indices, {pooled[0], pooled[1], pooled[2].size * pooled[3].size});
  Val taken = flat.make<GatherOp>(flat, at, 2);
  ctx.grad(0, reshapeTo(taken, pooled));
  return success();
}

LogicalResult AvgPool2dOp::differentiate(GradContext &ctx) {
  const auto &p = ctx.properties<AvgPool2dOp>();
  ctx.grad(0, ctx.make<AvgPool2dGradientOp>(ctx.operandType(0), ctx.g(), p.kernel, p.strides,
                                            p.padding, p.ceil_mode, p.count_include_pad));
  return success();
}

LogicalResult AvgPool2dGradientOp::differentiate(GradContext &ctx) {
  const auto &p = ctx.properties<AvgPool2dGradientOp>();
  ctx.grad(0, ctx.make<AvgPool2dOp>(ctx.g(), p.kernel, p.strides, p.padding, p.ceil_mode,
                                    p.count_include_pad));
  return success();
}

//===-- Normalization -------------------------------------------------------------------------===//

// With h = (x - mean) rstd, c = g weight and n elements a channel: dx = rstd (c - mean(c) - h
// mean(c h)), dweight = sum(g h), dbias = sum(g). mean and variance have cotangents of their own: d
// mean / dx = 1 / n, d variance / dx = 2 (x - mean) / n.
LogicalResult BatchNormOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  enum { kInput, kWeight, kBias };
  Dims extents = dimsOf(ctx.operandType(kInput));
  SmallVector<int64_t> dims = allButChannels(extents.size());
  const auto &p = ctx.properties<BatchNormOp>();
  bool hasWeight = p.operandSegmentSizes[kWeight] != 0, hasBias = p.operandSegmentSizes[kBias] != 0;
  int64_t weightIndex = 1, biasIndex = hasWeight ? 2 : 1;
  auto full = [&](Val channel) {
    return unreduce(channel, extents, dims);
  };
  auto perElement = [&](Val channel) {
    return divideByCount(channel, extents, dims);
  };
  bool needsInput = ctx.needs(kInput), needsWeight = hasWeight && ctx.needs(weightIndex);
  if (hasBias && ctx.hasG(0) && ctx.needs(biasIndex))
    ctx.grad(biasIndex, sum(ctx.g(0), dims));
  if (!needsInput && !needsWeight)
    return success();

  Val dx, centered;
  if (ctx.hasG(0) || ctx.hasG(2))
    centered = ctx.operand(kInput) - full(ctx.result(1));
  auto accumulate = [](Val &to, Val term) {
    to = to ? to + term : term;
  };
  if (ctx.hasG(0)) {
    Val rstd = rsqrt(ctx.result(2) + p.eps.getValueAsDouble()), g = ctx.g(0);
    Val normalized = centered * full(rstd);
    // The sums of g and g h serve dweight, dbias and dx alike: weight is one number a channel.
    Val sumOfProducts = sum(g * normalized, dims);
    if (needsWeight)
      ctx.grad(weightIndex, sumOfProducts);
    if (needsInput) {
      Val factor = hasWeight ? rstd * ctx.operand(weightIndex) : rstd;
      dx = (g - full(perElement(sum(g, dims))) - normalized * full(perElement(sumOfProducts))) *
           full(factor);
    }
  }
  if (!needsInput)
    return success();
  if (ctx.hasG(1))
    accumulate(dx, full(perElement(ctx.g(1))));
  if (ctx.hasG(2))
    accumulate(dx, centered * full(perElement(ctx.g(2) * 2.0)));
  if (dx)
    ctx.grad(kInput, dx);
  return success();
}

// With s = rsqrt(variance + eps) and f = s weight: dx = g f, dmean = -sum(g) f, dbias = sum(g); and
// with p = sum(g (x - mean)): dweight = p s, dvariance = -p f s^2 / 2.
LogicalResult BatchNormInferenceOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  enum { kInput, kMean, kVariance, kWeight };
  const auto &p = ctx.properties<BatchNormInferenceOp>();
  bool hasWeight = p.operandSegmentSizes[kWeight] != 0, hasBias = p.operandSegmentSizes[4] != 0;
  int64_t biasIndex = hasWeight ? kWeight + 1 : kWeight;
  Dims extents = dimsOf(ctx.operandType(kInput));
  SmallVector<int64_t> dims = allButChannels(extents.size());
  auto full = [&](Val channel) {
    return unreduce(channel, extents, dims);
  };
  bool needsWeight = hasWeight && ctx.needs(kWeight);
  if (hasBias && ctx.needs(biasIndex))
    ctx.grad(biasIndex, sum(ctx.g(), dims));
  if (!ctx.needs(kInput) && !ctx.needs(kMean) && !ctx.needs(kVariance) && !needsWeight)
    return success();

  Val rstd = rsqrt(ctx.operand(kVariance) + p.eps.getValueAsDouble());
  Val factor = hasWeight ? rstd * ctx.operand(kWeight) : rstd;
  if (ctx.needs(kInput))
    ctx.grad(kInput, ctx.g() * full(factor));
  if (ctx.needs(kMean))
    ctx.grad(kMean, -(sum(ctx.g(), dims) * factor));
  if (!needsWeight && !ctx.needs(kVariance))
    return success();
  Val products = sum(ctx.g() * (ctx.operand(kInput) - full(ctx.operand(kMean))), dims);
  if (needsWeight)
    ctx.grad(kWeight, products * rstd);
  if (ctx.needs(kVariance))
    ctx.grad(kVariance, products * factor * (rstd * rstd) * -0.5);
  return success();
}

} // namespace weft::ir
