#include "tests/support/ErrorBudget.h"

#include <algorithm>
#include <cmath>

#include "dialects/weft/ir/Weft.h"
#include "tests/support/OpRows.h"

namespace weft::tests {

using ir::HostTensor;

static bool isNarrow(DType dtype) {
  return is_floating(dtype) && byte_size(dtype) < 4;
}

// The records' budgets are those of f32. In f64 the reference is itself off: by a unit, or, where
// it composes functions (gelu, softplus, pow: budget 4), by as much as the result. Functions of
// bf16 and f16 are computed in f32 and rounded once: an error of the f32 can make that a step more
// or less.
static double ulpsOf(int budget, DType dtype) {
  if (isNarrow(dtype))
    return budget > 0 ? 1 : 0;
  if (budget <= 0 || dtype != DType::kFloat64)
    return std::max(budget, 0);
  return budget >= 4 ? 2 * budget : budget + 1;
}

// The exponent's relative roundings, of the op and of the reference together, times the condition
// |w f'(w) / f(w)| of the function in it.
double exponentRoundings(mlir::Operation *op, double x) {
  auto gelu = mlir::dyn_cast<ir::GeluOp>(op);
  if (!gelu || !std::isfinite(x))
    return 0;
  if (gelu.getTanhApproximation()) {
    // x sigmoid(w), w = x (a + c x^2): at most five roundings on a way through w, counting those of
    // a and c, and seven in the reference's order. The condition of sigmoid is |w| sigmoid(-w).
    double w = 2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    return 12 * std::abs(w) / (1 + std::exp(w));
  }
  // x erfc(z) / 2, z = -x / sqrt(2): a rounding of z and one of the constant, in both. The
  // condition of erfc for z > 0 is below z (z + sqrt(z^2 + 2)) (Abramowitz and Stegun 7.1.13); for
  // z <= 0 erfc is at least 1 and it is below 1.
  double z = -x * M_SQRT1_2;
  return 4 * (z > 0 ? z * (z + std::sqrt(z * z + 2)) : 1);
}

// For each element of a function of an exponential: what the rounding of its exponent adds to its
// units in the last place (the f32 forms correct it), and what is below the normal range, where exp
// is off by a fixed amount that the factor x multiplies. Else empty.
static std::vector<double> exponentBound(OpModule &made, DType dtype, double ulps,
                                         const HostTensor &expected) {
  if (!mlir::isa<ir::GeluOp>(made.op) || isNarrow(dtype))
    return {};
  bool isDouble = dtype == DType::kFloat64;
  std::vector<double> bound;
  for (int64_t i = 0; i < expected.size(); ++i) {
    double x = made.inputs[0].getDouble(i), size = std::abs(expected.getDouble(i));
    if (!std::isfinite(x) || !std::isfinite(size))
      x = size = 0;
    double relative = isDouble ? std::ldexp(exponentRoundings(made.op, x) + 2 * ulps, -53) : 0;
    bound.push_back(relative * size +
                    std::ldexp(ulps / 2 * (1 + std::abs(x)), isDouble ? -1074 : -149));
  }
  return bound;
}

// Of digamma, which is 0 at 1.46: it is the difference of a logarithm and of fractions that are
// both below 3 there, and of these roundings stay. Else empty.
static std::vector<double> differenceBound(OpModule &made, DType dtype, double ulps) {
  auto polygamma = mlir::dyn_cast<ir::PolygammaOp>(made.op);
  if (!polygamma || polygamma.getOrder() != 0 || isNarrow(dtype))
    return {};
  return {std::ldexp(3 * ulps, dtype == DType::kFloat64 ? -53 : -24)};
}

static int64_t product(llvm::ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  return n;
}

double termsOf(OpModule &made) {
  llvm::StringRef name = made.op->getName().getStringRef();
  auto shape = [&](int64_t i) {
    return mlir::cast<mlir::RankedTensorType>(made.op->getOperand(i).getType()).getShape();
  };
  if (name == "weft.matmul")
    return shape(
        0)[shape(0).size() - (mlir::cast<ir::MatmulOp>(made.op).getTransposeLhs() ? 2 : 1)];
  if (name == "weft.attention")
    return shape(0).back() + shape(1)[shape(1).size() - 2];
  if (name == "weft.attention_gradient")
    return shape(0).back() + shape(2).back() + shape(0)[shape(0).size() - 2] +
           shape(1)[shape(1).size() - 2];
  if (name == "weft.index_add" || name == "weft.scatter_add" || name == "weft.scatter_reduce")
    return 1 + product(shape(1));
  if (mlir::isa<ir::Conv2dOp>(made.op))
    return product(shape(1).drop_front());
  if (mlir::isa<ir::Conv2dInputGradientOp>(made.op))
    return shape(1)[0] * product(shape(1).drop_front(2));
  if (mlir::isa<ir::Conv2dWeightGradientOp>(made.op))
    return shape(1)[0] * product(shape(1).drop_front(2));
  if (auto pool = mlir::dyn_cast<ir::AvgPool2dOp>(made.op))
    return product(pool.getKernel());
  if (auto pool = mlir::dyn_cast<ir::AvgPool2dGradientOp>(made.op))
    return product(pool.getKernel());
  if (auto pool = mlir::dyn_cast<ir::MaxPool2dGradientOp>(made.op))
    return product(pool.getKernel());
  if (mlir::isa<ir::BatchNormOp>(made.op))
    return product(shape(0)) / std::max<int64_t>(1, shape(0)[1]);
  double terms = 1;
  for (int64_t i = 0, n = made.op->getNumOperands(); i < n; ++i)
    terms = std::max<double>(terms, product(shape(i)));
  // A reduction, or a composite of one: the last dims of what it reads.
  if (auto results = made.op->getResultTypes();
      !results.empty() && mlir::isa<ir::ReduceSumOp, ir::ReduceMeanOp, ir::ReduceProdOp>(made.op))
    return terms /
           std::max<double>(1, product(mlir::cast<mlir::RankedTensorType>(results[0]).getShape()));
  if (auto norm = mlir::dyn_cast<ir::LayerNormOp>(made.op))
    return product(shape(0).take_back(norm.getNormalizedRank()));
  return shape(0).empty() ? 1 : *std::max_element(shape(0).begin(), shape(0).end());
}

// What the last rounding, to a 16-bit float, moves a result of this size by, on both sides.
static double narrowing(DType dtype, double size) {
  if (!isNarrow(dtype))
    return 0;
  return dtype == DType::kBFloat16 ? std::ldexp(size, -7) + std::ldexp(1, -133)
                                   : std::ldexp(size, -10) + std::ldexp(1, -24);
}

// How many roundings a sum of so many terms may add up to, of its terms' absolute values. Kernels
// keep that of long sums small; the reference, whose accumulator is float64, adds in order, so that
// a sum in float64 is compared with one that has lost as much as there are terms. Libraries' sums
// are what they are.
static double roundingsOf(OpModule &made, DType dtype, double terms) {
  constexpr double kLongSum = 64;
  bool isLong = mlir::isa<ir::ReduceSumOp, ir::ReduceMeanOp, ir::CumsumOp>(made.op) &&
                dtype != DType::kFloat64;
  return isLong ? std::min(terms, kLongSum) : terms;
}

static bool isProduct(mlir::Operation *op) {
  auto scatter = mlir::dyn_cast<ir::ScatterReduceOp>(op);
  return mlir::isa<ir::ReduceProdOp>(op) ||
         (scatter && scatter.getCombiner() == ir::Combiner::prod);
}

// The bound of an n-term sum: (n + c) u times the sum of the terms' absolute values, where u is
// half a unit in the last place of 1. The absolute values come from evaluating the op on its
// inputs' absolute values, where it is linear; composites, whose values are sums of bounded terms,
// take their largest result. c stands for the roundings beside the sum: some tens in a composite.
// bf16 and f16 are summed in f32.
static std::vector<double> sumBound(OpModule &made, DType dtype, const HostTensor &expected) {
  double unit = dtype == DType::kFloat64 ? std::ldexp(1, -53) : std::ldexp(1, -24),
         terms = roundingsOf(made, dtype, termsOf(made));
  // Below the normal range what is rounded to is a fixed distance apart.
  double least = dtype == DType::kFloat64 ? std::ldexp(1, -1074) : std::ldexp(1, -149);
  // A product's error is relative: its absolute value is that of the factors' absolute values, too.
  if (mlir::isa<ir::ReduceSumOp, ir::ReduceMeanOp, ir::ReduceProdOp, ir::CumsumOp, ir::CumprodOp,
                ir::RecurrenceOp, ir::MatmulOp, ir::IndexAddOp, ir::ScatterAddOp,
                ir::ScatterReduceOp, ir::Conv2dOp, ir::Conv2dInputGradientOp,
                ir::Conv2dWeightGradientOp, ir::AvgPool2dOp, ir::AvgPool2dGradientOp,
                ir::MaxPool2dGradientOp>(made.op)) {
    std::vector<HostTensor> absolute = made.inputs;
    for (HostTensor &input : absolute)
      for (int64_t i = 0; is_floating(input.dtype) && i < input.size(); ++i)
        input.set(i, std::abs(input.getDouble(i)));
    std::string error;
    std::vector<HostTensor> sums = evaluate(made.main, absolute, error);
    if (sums.empty())
      return {0};
    std::vector<double> bound;
    for (int64_t i = 0; i < sums[0].size(); ++i)
      bound.push_back((terms + 2) * (unit * sums[0].getDouble(i) + least) +
                      narrowing(dtype, std::abs(expected.getDouble(i))));
    // In another order a product of some of the factors may be too large for the dtype, and a 0
    // then makes it NaN. Or it lies below the normal range, where it loses up to half of `least`,
    // which the other factors then multiply: at most by all that are larger than 1.
    if (isProduct(made.op)) {
      for (HostTensor &input : absolute)
        for (int64_t i = 0; is_floating(input.dtype) && i < input.size(); ++i)
          input.set(i, std::isfinite(input.getDouble(i)) ? std::max(1.0, input.getDouble(i)) : 1.0);
      std::vector<HostTensor> largest = evaluate(made.main, absolute, error);
      for (size_t i = 0; i < bound.size() && !largest.empty(); ++i)
        bound[i] += terms * least * largest[0].getDouble(static_cast<int64_t>(i));
    }
    return bound;
  }
  double largest = 1;
  for (int64_t i = 0; i < expected.size(); ++i)
    if (std::isfinite(expected.getDouble(i)))
      largest = std::max(largest, std::abs(expected.getDouble(i)));
  return {(terms + 64) * unit * largest + narrowing(dtype, largest)};
}

Budget budgetOf(OpModule &made, DType dtype, const HostTensor &expected) {
  const ir::OpRow *row = findRow(made.op->getName().getStringRef());
  if (!row)
    return {};
  Budget budget{ulpsOf(row->ulp, dtype)};
  if (row->ulp < 0)
    budget.bound = sumBound(made, dtype, expected);
  else if (budget.bound = differenceBound(made, dtype, budget.ulps); budget.bound.empty())
    budget.bound = exponentBound(made, dtype, budget.ulps, expected);
  return budget;
}

} // namespace weft::tests
