// Reference evaluation of convolutions, pooling and batch normalization: the sums of their records,
// in float64, one product at a time.
#include "dialects/weft/reference/EvaluationIndex.h"
#include "dialects/weft/rules/Window.h"

namespace weft::ir {

using namespace mlir;

static std::vector<double> numbersOf(const HostTensor &tensor) {
  std::vector<double> numbers(tensor.size());
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = tensor.getDouble(i);
  return numbers;
}
static void store(HostTensor &to, ArrayRef<double> from) {
  for (auto [i, number] : llvm::enumerate(from))
    to.set(i, number);
}

// Visits the taps of a window that lie in the image: visit(tap, position).
template <typename Visit>
static void visitTaps(const Window &window, int64_t output, int64_t size, Visit visit) {
  for (int64_t tap = 0; tap < window.kernel; ++tap)
    if (int64_t at = window.at(output, tap); at >= 0 && at < size)
      visit(tap, at);
}

// The same of a window of an image, in rows and columns: visit(position).
template <typename Visit>
static void visitWindow(const Windows2d &windows, int64_t y, int64_t x, int64_t height,
                        int64_t width, Visit visit) {
  visitTaps(windows.y, y, height, [&](int64_t, int64_t row) {
    visitTaps(windows.x, x, width, [&](int64_t, int64_t column) { visit(row * width + column); });
  });
}

// All products of a convolution: visit(position in the input, in the weight, in the result).
template <typename Visit>
static void visitProducts(const Windows2d &windows, int64_t groups, ArrayRef<int64_t> input,
                          ArrayRef<int64_t> weight, ArrayRef<int64_t> result, Visit visit) {
  int64_t outputs = weight[0] / groups, inputs = weight[1];
  for (int64_t n = 0; n < input[0]; ++n)
    for (int64_t o = 0; o < weight[0]; ++o)
      for (int64_t c = 0; c < inputs; ++c)
        for (int64_t y = 0; y < result[2]; ++y)
          for (int64_t x = 0; x < result[3]; ++x)
            visitTaps(windows.y, y, input[2], [&](int64_t i, int64_t row) {
              visitTaps(windows.x, x, input[3], [&](int64_t j, int64_t column) {
                int64_t channel = o / outputs * inputs + c;
                visit(((n * input[1] + channel) * input[2] + row) * input[3] + column,
                      ((o * inputs + c) * weight[2] + i) * weight[3] + j,
                      ((n * weight[0] + o) * result[2] + y) * result[3] + x);
              });
            });
}

LogicalResult Conv2dOp::evaluate(EvalContext &ctx) {
  const HostTensor &input = ctx.operand(0), &weight = ctx.operand(1);
  std::vector<double> x = numbersOf(input), w = numbersOf(weight), sums(ctx.result().size(), 0);
  visitProducts(convolutionWindows(*this, weight.shape), getGroups(), input.shape, weight.shape,
                ctx.result().shape,
                [&](int64_t in, int64_t by, int64_t out) { sums[out] += x[in] * w[by]; });
  store(ctx.result(), sums);
  return success();
}

LogicalResult Conv2dInputGradientOp::evaluate(EvalContext &ctx) {
  const HostTensor &gradient = ctx.operand(0), &weight = ctx.operand(1);
  std::vector<double> g = numbersOf(gradient), w = numbersOf(weight), sums(ctx.result().size(), 0);
  visitProducts(convolutionWindows(*this, weight.shape), getGroups(), ctx.result().shape,
                weight.shape, gradient.shape,
                [&](int64_t in, int64_t by, int64_t out) { sums[in] += g[out] * w[by]; });
  store(ctx.result(), sums);
  return success();
}

LogicalResult Conv2dWeightGradientOp::evaluate(EvalContext &ctx) {
  const HostTensor &input = ctx.operand(0), &gradient = ctx.operand(1);
  std::vector<double> x = numbersOf(input), g = numbersOf(gradient), sums(ctx.result().size(), 0);
  visitProducts(convolutionWindows(*this, ctx.result().shape), getGroups(), input.shape,
                ctx.result().shape, gradient.shape,
                [&](int64_t in, int64_t by, int64_t out) { sums[by] += x[in] * g[out]; });
  store(ctx.result(), sums);
  return success();
}

//===-- Windows and pooling -------------------------------------------------------------------===//

LogicalResult WindowsOp::evaluate(EvalContext &ctx) {
  const HostTensor &input = ctx.operand(0);
  int64_t rank = input.shape.size(), n = ctx.result().size();
  for (int64_t i = 0; i < n; ++i) {
    Coords to = coordsOf(i, ctx.result().shape), from(to.begin(), to.begin() + rank);
    for (int64_t d = 0; d < 2; ++d)
      from[rank - 2 + d] = to[rank + d] * getStrides()[d] + to[rank - 2 + d] * getDilation()[d];
    copyElement(ctx.result(), i, input, positionOf(from, input.shape));
  }
  return success();
}

// Visits the windows of an image: visit(image, y, x), whose result is element (image * OH + y) * OW
// + x.
template <typename Visit> static void visitWindows(ArrayRef<int64_t> pooled, Visit visit) {
  for (int64_t image = 0; image < pooled[0] * pooled[1]; ++image)
    for (int64_t y = 0; y < pooled[2]; ++y)
      for (int64_t x = 0; x < pooled[3]; ++x)
        visit(image, y, x, (image * pooled[2] + y) * pooled[3] + x);
}

LogicalResult MaxPool2dOp::evaluate(EvalContext &ctx) {
  const HostTensor &input = ctx.operand(0);
  Windows2d windows = poolWindows(*this);
  int64_t height = input.shape[2], width = input.shape[3];
  visitWindows(ctx.result().shape, [&](int64_t image, int64_t y, int64_t x, int64_t out) {
    double largest = -std::numeric_limits<double>::infinity();
    int64_t index = -1;
    visitWindow(windows, y, x, height, width, [&](int64_t at) {
      double value = input.getDouble(image * height * width + at);
      if (index >= 0 && !(value > largest) && value == value)
        return;
      largest = value;
      index = at;
    });
    ctx.result(0).set(out, largest);
    ctx.result(1).setInt(out, index);
  });
  return success();
}

LogicalResult MaxPool2dGradientOp::evaluate(EvalContext &ctx) {
  const HostTensor &gradient = ctx.operand(0), &indices = ctx.operand(1);
  int64_t height = ctx.result().shape[2], width = ctx.result().shape[3];
  Windows2d windows = poolWindows(*this);
  std::vector<double> sums(ctx.result().size(), 0);
  visitWindows(gradient.shape, [&](int64_t image, int64_t y, int64_t x, int64_t out) {
    // An index outside of its window is none that max_pool2d gives; it points at nothing.
    visitWindow(windows, y, x, height, width, [&](int64_t at) {
      if (indices.getInt(out) == at)
        sums[image * height * width + at] += gradient.getDouble(out);
    });
  });
  store(ctx.result(), sums);
  return success();
}

LogicalResult AvgPool2dOp::evaluate(EvalContext &ctx) {
  const HostTensor &input = ctx.operand(0);
  Windows2d windows = poolWindows(*this);
  int64_t height = input.shape[2], width = input.shape[3];
  visitWindows(ctx.result().shape, [&](int64_t image, int64_t y, int64_t x, int64_t out) {
    double sum = 0;
    visitWindow(windows, y, x, height, width,
                [&](int64_t at) { sum += input.getDouble(image * height * width + at); });
    double divisor = static_cast<double>(windows.y.divisor(y, height, getCountIncludePad()) *
                                         windows.x.divisor(x, width, getCountIncludePad()));
    ctx.result().set(out, sum / divisor);
  });
  return success();
}

LogicalResult AvgPool2dGradientOp::evaluate(EvalContext &ctx) {
  const HostTensor &gradient = ctx.operand(0);
  Windows2d windows = poolWindows(*this);
  int64_t height = ctx.result().shape[2], width = ctx.result().shape[3];
  std::vector<double> sums(ctx.result().size(), 0);
  visitWindows(gradient.shape, [&](int64_t image, int64_t y, int64_t x, int64_t out) {
    double divisor = static_cast<double>(windows.y.divisor(y, height, getCountIncludePad()) *
                                         windows.x.divisor(x, width, getCountIncludePad()));
    visitWindow(windows, y, x, height, width, [&](int64_t at) {
      sums[image * height * width + at] += gradient.getDouble(out) / divisor;
    });
  });
  store(ctx.result(), sums);
  return success();
}

//===-- Normalization -------------------------------------------------------------------------===//

LogicalResult BatchNormOp::evaluate(EvalContext &ctx) {
  const HostTensor &x = ctx.operand(0);
  int64_t next = 1;
  const HostTensor *weight = getWeight() ? &ctx.operand(next++) : nullptr,
                   *bias = getBias() ? &ctx.operand(next++) : nullptr;
  DimSplit split(x.shape, 1);
  double count = static_cast<double>(split.outer * split.inner);
  for (int64_t c = 0; c < split.size; ++c) {
    auto visit = [&](auto f) {
      for (int64_t o = 0; o < split.outer; ++o)
        for (int64_t i = 0; i < split.inner; ++i)
          f(split.at(o, c, i));
    };
    double sum = 0, squares = 0;
    visit([&](int64_t at) { sum += x.getDouble(at); });
    double mean = sum / count;
    visit([&](int64_t at) { squares += std::pow(x.getDouble(at) - mean, 2); });
    double variance = squares / count, rstd = 1 / std::sqrt(variance + getEps().convertToDouble());
    ctx.result(1).set(c, mean);
    ctx.result(2).set(c, variance);
    visit([&](int64_t at) {
      double y = (x.getDouble(at) - mean) * rstd;
      if (weight)
        y *= weight->getDouble(c);
      if (bias)
        y += bias->getDouble(c);
      ctx.result(0).set(at, y);
    });
  }
  return success();
}

LogicalResult BatchNormInferenceOp::evaluate(EvalContext &ctx) {
  const HostTensor &x = ctx.operand(0), &mean = ctx.operand(1), &variance = ctx.operand(2);
  int64_t next = 3;
  const HostTensor *weight = getWeight() ? &ctx.operand(next++) : nullptr,
                   *bias = getBias() ? &ctx.operand(next++) : nullptr;
  DimSplit split(x.shape, 1);
  for (int64_t c = 0; c < split.size; ++c) {
    double scale = 1 / std::sqrt(variance.getDouble(c) + getEps().convertToDouble());
    if (weight)
      scale *= weight->getDouble(c);
    for (int64_t o = 0; o < split.outer; ++o)
      for (int64_t i = 0; i < split.inner; ++i) {
        int64_t at = split.at(o, c, i);
        double y = (x.getDouble(at) - mean.getDouble(c)) * scale;
        ctx.result(0).set(at, bias ? y + bias->getDouble(c) : y);
      }
  }
  return success();
}

} // namespace weft::ir
