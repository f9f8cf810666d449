// Decompositions of convolutions, pooling and batch normalization, for what no library runs: other
// dtypes than f32, NaN-exact pooling, targets without a library. A convolution becomes one matrix
// product with the windows of its input; it costs memory for these, and where it is large, a factor
// that is infinite meets the zeros of the padding: NaN. One of few products leaves those out.
#include "dialects/weft/rules/Composites.h"
#include "dialects/weft/ir/SmallestSize.h"
#include "dialects/weft/rules/Window.h"

#include <limits>

namespace weft::ir {

using namespace mlir;

using Values = SmallVector<Value>;

SmallVector<int64_t> allButChannels(int64_t rank) {
  SmallVector<int64_t> dims{0};
  for (int64_t i = 2; i < rank; ++i)
    dims.push_back(i);
  return dims;
}

//===-- Building blocks -----------------------------------------------------------------------===//

// Where the rows (or columns) of an image go: i to start + i * step, in a larger one of `size`.
struct Placing {
  int64_t start, step, size;
};

// A tensor of `fill` with x's images placed in it; what would lie outside is left out.
static Val place(Val x, Placing rows, Placing columns, double fill) {
  Dims dims = dimsOf(x);
  SmallVector<int64_t> starts, steps, from, limits;
  bool empty = false, cut = false;
  for (auto [d, dim] : llvm::enumerate(dims)) {
    bool spatial = d + 2 >= dims.size();
    Placing p = !spatial ? Placing{0, 1, 0} : d + 2 == dims.size() ? rows : columns;
    from.push_back(0);
    limits.push_back(dim.isStatic() ? dim.size : ShapedType::kDynamic);
    starts.push_back(p.start);
    steps.push_back(p.step);
    if (!spatial)
      continue;
    int64_t first = p.start < 0 ? (-p.start + p.step - 1) / p.step : 0;
    int64_t end = p.start >= p.size ? 0 : std::min(dim.size, (p.size - 1 - p.start) / p.step + 1);
    cut |= first > 0 || end < dim.size;
    empty |= first >= end;
    from.back() = first;
    limits.back() = end;
    starts.back() += first * p.step;
    dim = p.size;
  }
  bool isStatic = llvm::all_of(dims, [](const Dim &dim) { return dim.isStatic(); });
  Val base =
      isStatic
          ? x.constant(fill, llvm::map_to_vector(dims, [](const Dim &dim) { return dim.size; }))
          : broadcastTo(x.constant(fill, {}), dims);
  if (empty)
    return base;
  if (cut) {
    SmallVector<int64_t> ones(dims.size(), 1);
    x = x.make<SliceOp>(x, from, limits, ones);
  }
  if (dimsOf(x) == dims)
    return x;
  return base.make<InsertSliceOp>(base.type(), base, x, starts, steps);
}

// The input of windows: the image with its padding, as large as the windows need it.
static Val padded(Val x, const Windows2d &windows, int64_t rows, int64_t columns, double fill) {
  ArrayRef<int64_t> shape = x.shape();
  auto placing = [](const Window &window, int64_t size, int64_t outputs) {
    return Placing{window.padding, 1, std::max(window.covered(outputs), size + window.padding)};
  };
  return place(x, placing(windows.y, shape.end()[-2], rows),
               placing(windows.x, shape.end()[-1], columns), fill);
}

// [.., KH, KW, OH, OW] of [.., H, W].
static Val windowsOf(Val x, const Windows2d &windows) {
  return x.make<WindowsOp>(x, ArrayRef{windows.y.kernel, windows.x.kernel},
                           ArrayRef{windows.y.stride, windows.x.stride},
                           ArrayRef{windows.y.dilation, windows.x.dilation});
}

static Val splat(Val like, ArrayRef<Dim> dims, Type element, ArrayRef<double> numbers,
                 ArrayRef<int64_t> shape) {
  HostTensor host(dtypeOf(element), std::vector<int64_t>(shape.begin(), shape.end()));
  for (auto [i, number] : llvm::enumerate(numbers))
    host.set(i, number);
  Val constant = like.make<ConstantOp>(host.toAttribute(like.builder().getContext()));
  return broadcastTo(constant, dims);
}

//===-- Convolution ---------------------------------------------------------------------------===//

// The windows of an image as the right side of a product: [N, groups, C / groups * KH * KW, OH *
// OW].
static Val columnsOf(Val x, const Windows2d &windows, int64_t groups) {
  Dims dims = dimsOf(windowsOf(x, windows).type());
  int64_t depth = dims[1].size / groups * dims[2].size * dims[3].size;
  return reshapeTo(windowsOf(x, windows), {dims[0], groups, depth, dims[4].size * dims[5].size});
}

// Up to here a convolution is a sum of products in one kernel, as fast as a matrix product and what
// surrounds it; all that the CPU's library is not called for are such ones.
static constexpr int64_t kMostSummed = 32 * 1024;

// The products that a convolution of a weight of these dims adds up, for a result of these.
static int64_t productsOf(ArrayRef<Dim> weight, ArrayRef<Dim> result) {
  int64_t products = 1;
  for (const Dim &dim : llvm::concat<const Dim>(weight.drop_front(), result))
    products *= dim.size;
  return products;
}

// 1 for each tap of each window of an image that holds an element, 0 for what lies around or in
// between: [KH, KW, OH, OW]. Empty where there is no 0, or for more than kMostSummed products.
// isHeld(i, window, output, tap): along dim i of the image.
template <typename Held>
static std::vector<double> heldTaps(const Windows2d &windows, int64_t rows, int64_t columns,
                                    int64_t products, Held isHeld) {
  std::vector<double> held;
  if (products > kMostSummed)
    return held;
  bool all = true;
  for (int64_t i = 0; i < windows.y.kernel; ++i)
    for (int64_t j = 0; j < windows.x.kernel; ++j)
      for (int64_t y = 0; y < rows; ++y)
        for (int64_t x = 0; x < columns; ++x) {
          held.push_back(isHeld(0, windows.y, y, i) && isHeld(1, windows.x, x, j));
          all &= held.back() != 0;
        }
  return all ? std::vector<double>() : held;
}

static auto inImage(Val x) {
  return [x](int i, const Window &window, int64_t output, int64_t tap) {
    int64_t at = window.at(output, tap);
    return at >= 0 && at < x.shape()[2 + i];
  };
}

// The products of `factor` (dims [N or 1, groups, O or 1, C or 1, KH or 1, KW or 1, OH or 1, OW or
// 1]) with the taps of windows of x, [N, groups, O, C, KH, KW, OH, OW]: 0 where none is held,
// whatever the factor.
static Val heldProducts(Val factor, Val x, const Windows2d &windows, ArrayRef<double> held,
                        int64_t groups, int64_t outputs, bool byInput) {
  Val taps = windowsOf(x, windows);
  Dims dims = dimsOf(taps);
  int64_t channels = dims[1].size / groups;
  Dims apart{dims[0], groups, byInput ? channels : 1, byInput ? 1 : channels};
  apart.append(dims.begin() + 2, dims.end());
  Dims full = apart;
  full[byInput ? 3 : 2] = outputs;
  Val product = broadcastTo(factor, full) * broadcastTo(reshapeTo(taps, apart), full);
  SmallVector<int64_t> shape;
  for (const Dim &dim : ArrayRef<Dim>(dims).drop_front(2))
    shape.push_back(dim.size);
  Val isHeld = splat(x, full, x.builder().getI1Type(), held, shape);
  return select(isHeld, product, zerosOf(product, full));
}

FailureOr<Values> Conv2dOp::decompose(OpBuilder &b) {
  Val x = widen(Val(b, getLoc(), getInput())), w = widen(x.at(getWeight()));
  Dims result = dimsOf(getType());
  Windows2d windows = convolutionWindows(*this, w.shape());
  int64_t groups = getGroups(), outputs = w.shape()[0] / groups;
  Val image = padded(x, windows, result[2].size, result[3].size, 0);
  std::vector<double> held =
      heldTaps(windows, result[2].size, result[3].size, productsOf(dimsOf(w), result), inImage(x));
  if (!held.empty()) {
    Val factor = reshape(w, {1, groups, outputs, w.shape()[1], w.shape()[2], w.shape()[3], 1, 1});
    Val y = sum(heldProducts(factor, image, windows, held, groups, outputs, false), {3, 4, 5});
    return Values{narrowTo(reshapeTo(y, result), getResult())};
  }
  Val columns = columnsOf(image, windows, groups);
  Val y =
      matmul(reshape(w, {1, groups, outputs, w.shape()[1] * w.shape()[2] * w.shape()[3]}), columns);
  return Values{narrowTo(reshapeTo(y, result), getResult())};
}

// A convolution of the gradient, its elements a stride apart, with the weight turned by half a
// turn.
FailureOr<Values> Conv2dInputGradientOp::decompose(OpBuilder &b) {
  Val g = widen(Val(b, getLoc(), getGradient())), w = widen(g.at(getWeight()));
  Dims result = dimsOf(getType());
  Windows2d windows = convolutionWindows(*this, w.shape());
  int64_t groups = getGroups(), outputs = w.shape()[0] / groups, inputs = w.shape()[1],
          taps = w.shape()[2] * w.shape()[3];
  auto placing = [](const Window &window, int64_t size) {
    return Placing{window.extent() - 1 - window.padding, window.stride, size + window.extent() - 1};
  };
  Placing rows = placing(windows.y, result[2].size), across = placing(windows.x, result[3].size);
  Val spread = place(g, rows, across, 0);
  // From here on as they lie over `spread`.
  for (Window *window : {&windows.y, &windows.x})
    *window = {window->kernel, 1, 0, window->dilation};
  SmallVector<int64_t> starts{0, 0, w.shape()[2] - 1, w.shape()[3] - 1},
      limits{w.shape()[0], w.shape()[1], -1, -1}, steps{1, 1, -1, -1};
  Val turned = w.make<SliceOp>(w, starts, limits, steps);
  std::vector<double> held =
      heldTaps(windows, result[2].size, result[3].size, productsOf(dimsOf(w), dimsOf(g)),
               [&](int i, const Window &window, int64_t output, int64_t tap) {
                 const Placing &placed = i ? across : rows;
                 int64_t at = window.at(output, tap) - placed.start;
                 return at >= 0 && at % placed.step == 0 && at / placed.step < g.shape()[2 + i];
               });
  if (!held.empty()) {
    Val factor = reshape(turned, {1, groups, outputs, inputs, w.shape()[2], w.shape()[3], 1, 1});
    Val y = sum(heldProducts(factor, spread, windows, held, groups, inputs, true), {2, 4, 5});
    return Values{narrowTo(reshapeTo(y, result), getResult())};
  }
  Val columns = columnsOf(spread, windows, groups);
  turned = transpose(reshape(turned, {groups, outputs, inputs, taps}), {0, 2, 1, 3});
  Val y = matmul(reshape(turned, {1, groups, inputs, outputs * taps}), columns);
  return Values{narrowTo(reshapeTo(y, result), getResult())};
}

FailureOr<Values> Conv2dWeightGradientOp::decompose(OpBuilder &b) {
  Val x = widen(Val(b, getLoc(), getInput())), g = widen(x.at(getGradient()));
  Dims result = dimsOf(getType()), pooled = dimsOf(g);
  Windows2d windows = convolutionWindows(*this, getType().getShape());
  int64_t groups = getGroups(), outputs = result[0].size / groups,
          pixels = pooled[2].size * pooled[3].size;
  Val image = padded(x, windows, pooled[2].size, pooled[3].size, 0);
  std::vector<double> held =
      heldTaps(windows, pooled[2].size, pooled[3].size, productsOf(result, pooled), inImage(x));
  if (!held.empty()) {
    Val factor = reshapeTo(g, {pooled[0], groups, outputs, 1, 1, 1, pooled[2], pooled[3]});
    Val products = heldProducts(factor, image, windows, held, groups, outputs, false);
    Val y = sum(sum(products, {6, 7}), {0}); // in the order of a batch that varies
    return Values{narrowTo(reshapeTo(y, result), getResult())};
  }
  Val columns = columnsOf(image, windows, groups);
  Val rows = reshapeTo(g, {pooled[0], groups, outputs, pixels});
  Val y;
  if (pooled[0].isStatic() && productsOf(result, pooled) > kMostSummed) {
    // The batch is part of the contraction. Not where products are few: a batch that varies, of
    // which no library is called up to there, has one order for all sizes.
    int64_t depth = columns.shape()[2], batch = pooled[0].size;
    auto byGroup = [&](Val v, int64_t n) {
      return reshape(transpose(v, {1, 2, 0, 3}), {groups, n, batch * pixels});
    };
    y = matmul(byGroup(rows, outputs), byGroup(columns, depth), false, true);
  } else {
    y = sum(matmul(rows, columns, false, true), {0});
  }
  return Values{narrowTo(reshapeTo(y, result), getResult())};
}

bool decomposesBySize(Operation *op) {
  if (!isa<Conv2dOp, Conv2dInputGradientOp, Conv2dWeightGradientOp>(op))
    return false;
  auto dims = [](Value value) {
    return dimsOf(value);
  };
  // The CPU's library computes all f32 ones that are not of few products, and says where its range
  // begins.
  if (getElementTypeOrSelf(op->getResult(0)).isF32())
    return false;
  // The weight, and what has the convolution's result's dims: as decompose() counts.
  bool ofWeight = isa<Conv2dWeightGradientOp>(op);
  Dims weight = dims(ofWeight ? op->getResult(0) : op->getOperand(1)),
       result = dims(isa<Conv2dOp>(op) ? op->getResult(0) : op->getOperand(ofWeight ? 1 : 0)),
       smallest = result;
  if (llvm::all_of(result, [](const Dim &dim) { return dim.isStatic(); }))
    return false;
  for (Dim &dim : smallest)
    dim = Dim(smallestSize(op, dim));
  if (llvm::any_of(smallest, [](const Dim &dim) { return dim.size < 0; }))
    return true;
  bool isSummed = productsOf(weight, result) <= kMostSummed;
  return isSummed != (productsOf(weight, smallest) <= kMostSummed) || (ofWeight && !isSummed);
}

//===-- Pooling -------------------------------------------------------------------------------===//

// One tap of all windows: [N, C, OH, OW] of the padded image.
static Val tapOf(Val x, const Windows2d &windows, int64_t row, int64_t column,
                 ArrayRef<Dim> pooled) {
  SmallVector<int64_t> starts{0, 0, row * windows.y.dilation, column * windows.x.dilation};
  SmallVector<int64_t> limits{pooled[0].isStatic() ? pooled[0].size : ShapedType::kDynamic,
                              pooled[1].isStatic() ? pooled[1].size : ShapedType::kDynamic,
                              starts[2] + (pooled[2].size - 1) * windows.y.stride + 1,
                              starts[3] + (pooled[3].size - 1) * windows.x.stride + 1};
  SmallVector<int64_t> steps{1, 1, windows.y.stride, windows.x.stride};
  return x.make<SliceOp>(x, starts, limits, steps);
}

// Where a tap of each window lies in the image, y * W + x: int32, of the result's dims.
static Val positionsOf(Val like, const Windows2d &windows, int64_t row, int64_t column,
                       ArrayRef<Dim> pooled, int64_t width) {
  std::vector<double> rows, columns;
  for (int64_t y = 0; y < pooled[2].size; ++y)
    rows.push_back(static_cast<double>(windows.y.at(y, row) * width));
  for (int64_t x = 0; x < pooled[3].size; ++x)
    columns.push_back(static_cast<double>(windows.x.at(x, column)));
  Type element = like.builder().getI32Type();
  return splat(like, pooled, element, rows, {pooled[2].size, 1}) +
         splat(like, pooled, element, columns, {pooled[3].size});
}

// A chain of comparisons, tap by tap, which keeps PyTorch's order of ties and NaNs.
FailureOr<Values> MaxPool2dOp::decompose(OpBuilder &b) {
  Val x(b, getLoc(), getInput());
  Dims pooled = dimsOf(getResult().getType());
  Windows2d windows = poolWindows(*this);
  int64_t width = x.shape()[3];
  // Windows of one tap have no padding and are slices.
  Val image =
      padded(x, windows, pooled[2].size, pooled[3].size, -std::numeric_limits<double>::infinity());
  std::vector<double> firstRows, firstColumns;
  auto first = [](const Window &window, int64_t output) {
    int64_t at = window.at(output, 0);
    return at >= 0 ? at : at + (-at + window.dilation - 1) / window.dilation * window.dilation;
  };
  for (int64_t y = 0; y < pooled[2].size; ++y)
    firstRows.push_back(static_cast<double>(first(windows.y, y) * width));
  for (int64_t i = 0; i < pooled[3].size; ++i)
    firstColumns.push_back(static_cast<double>(first(windows.x, i)));
  // A window of nothing but -inf points at its first element in the image.
  Val index = splat(x, pooled, b.getI32Type(), firstRows, {pooled[2].size, 1}) +
              splat(x, pooled, b.getI32Type(), firstColumns, {pooled[3].size});
  Val largest;
  for (int64_t row = 0; row < windows.y.kernel; ++row)
    for (int64_t column = 0; column < windows.x.kernel; ++column) {
      Val tap = tapOf(image, windows, row, column, pooled);
      if (!largest) {
        largest = tap;
        // Where the first tap lies in the padding, the index of the first element stands already;
        // elsewhere it is the first tap's.
        continue;
      }
      Val isNan = compare("ne", tap, tap), isLarger = compare("gt", tap, largest);
      Val at = positionsOf(x, windows, row, column, pooled, width);
      index = select(isNan, at, select(isLarger, at, index));
      largest = select(isNan, tap, select(isLarger, tap, largest));
    }
  if (getIndices().getType().getElementType() != b.getI32Type())
    index = cast(index, getIndices().getType().getElementType());
  return Values{largest, index};
}

// Tap by tap: the elements whose index is that tap's, a stride apart, added up.
FailureOr<Values> MaxPool2dGradientOp::decompose(OpBuilder &b) {
  Val g = widen(Val(b, getLoc(), getGradient())), indices = g.at(getIndices());
  auto type = getType();
  Dims pooled = dimsOf(g);
  Windows2d windows = poolWindows(*this);
  int64_t height = type.getShape()[2], width = type.getShape()[3];
  if (indices.type().getElementType() != b.getI32Type())
    indices = cast(indices, b.getI32Type());
  Val total;
  for (int64_t row = 0; row < windows.y.kernel; ++row)
    for (int64_t column = 0; column < windows.x.kernel; ++column) {
      Val mine = compare("eq", indices, positionsOf(g, windows, row, column, pooled, width));
      Val taken = select(mine, g, g.constant(0));
      auto placing = [](const Window &window, int64_t tap, int64_t size) {
        return Placing{window.at(0, tap), window.stride, size};
      };
      Val placed =
          place(taken, placing(windows.y, row, height), placing(windows.x, column, width), 0);
      total = total ? total + placed : placed;
    }
  return Values{narrowTo(total, getResult())};
}

// 1 / the number of elements of each window, or the one divisor that they share.
template <typename Op> static Val divideByWindow(Val x, Op op, ArrayRef<int64_t> image) {
  Dims pooled = dimsOf(x);
  Windows2d windows = poolWindows(op);
  std::vector<double> divisors;
  for (int64_t row = 0; row < pooled[2].size; ++row)
    for (int64_t column = 0; column < pooled[3].size; ++column)
      divisors.push_back(
          static_cast<double>(windows.y.divisor(row, image[2], op.getCountIncludePad()) *
                              windows.x.divisor(column, image[3], op.getCountIncludePad())));
  if (llvm::all_equal(divisors))
    return x / divisors.front();
  return x /
         splat(x, pooled, x.type().getElementType(), divisors, {pooled[2].size, pooled[3].size});
}

// Windows that lie side by side and cover the image.
static bool tiles(const Windows2d &windows, const Dims &pooled, ArrayRef<int64_t> image) {
  auto tile = [](const Window &window, const Dim &count, int64_t size) {
    return window.padding == 0 && window.stride == window.kernel &&
           count.size * window.kernel == size;
  };
  return tile(windows.y, pooled[2], image[2]) && tile(windows.x, pooled[3], image[3]);
}

// Up to here the sum of all elements of windows that tile an image is one loop over them, and one
// kernel. That of more reads the image in runs of a window's width: the sum over rows, which reads
// whole rows, and one over columns after it take less: an eighth of the time for 8 by 8.
constexpr int64_t kFewTaps = 8;

FailureOr<Values> AvgPool2dOp::decompose(OpBuilder &b) {
  Val x = widen(Val(b, getLoc(), getInput()));
  Dims pooled = dimsOf(getType());
  Windows2d windows = poolWindows(*this);
  bool whole = pooled[2].isOne() && pooled[3].isOne() && windows.y.padding == 0 &&
               windows.x.padding == 0 && windows.y.kernel == x.shape()[2] &&
               windows.x.kernel == x.shape()[3];
  Val total;
  if (whole) {
    total = reshapeTo(sum(x, {2, 3}), pooled);
  } else if (windows.y.kernel * windows.x.kernel > kFewTaps && tiles(windows, pooled, x.shape())) {
    Val apart = reshapeTo(
        x, {pooled[0], pooled[1], pooled[2], windows.y.kernel, pooled[3], windows.x.kernel});
    total = sum(sum(apart, {3}), {4});
  } else {
    Val image = padded(x, windows, pooled[2].size, pooled[3].size, 0);
    total = sum(windowsOf(image, windows), {2, 3});
  }
  return Values{narrowTo(divideByWindow(total, *this, x.shape()), getResult())};
}

FailureOr<Values> AvgPool2dGradientOp::decompose(OpBuilder &b) {
  Val g = widen(Val(b, getLoc(), getGradient()));
  auto type = getType();
  Windows2d windows = poolWindows(*this);
  Val share = divideByWindow(g, *this, type.getShape());
  Dims pooled = dimsOf(g);
  if (tiles(windows, pooled, type.getShape())) { // each of a window's elements gets its share
    Val apart = reshapeTo(share, {pooled[0], pooled[1], pooled[2], 1, pooled[3], 1});
    apart = broadcastTo(
        apart, {pooled[0], pooled[1], pooled[2], windows.y.kernel, pooled[3], windows.x.kernel});
    return Values{narrowTo(reshapeTo(apart, dimsOf(type)), getResult())};
  }
  auto placing = [](const Window &window, int64_t size) {
    return Placing{window.extent() - 1 - window.padding, window.stride, size + window.extent() - 1};
  };
  Val spread = place(share, placing(windows.y, type.getShape()[2]),
                     placing(windows.x, type.getShape()[3]), 0);
  windows.y.stride = windows.x.stride = 1;
  return Values{narrowTo(sum(windowsOf(spread, windows), {2, 3}), getResult())};
}

//===-- Normalization -------------------------------------------------------------------------===//

FailureOr<Values> BatchNormOp::decompose(OpBuilder &b) {
  Val x = widen(Val(b, getLoc(), getInput()));
  SmallVector<int64_t> dims = allButChannels(x.rank());
  Dims extents = dimsOf(x);
  auto full = [&](Val channel) {
    return unreduce(channel, extents, dims);
  };
  Val mean = divideByCount(sum(x, dims), extents, dims);
  Val centered = x - full(mean);
  Val variance = divideByCount(sum(centered * centered, dims), extents, dims);
  Val y = centered * full(rsqrt(variance + getEps().convertToDouble()));
  if (Value weight = getWeight())
    y = y * full(widen(x.at(weight)));
  if (Value bias = getBias())
    y = y + full(widen(x.at(bias)));
  return Values{narrowTo(y, getResult()), narrowTo(mean, getMean()),
                narrowTo(variance, getVariance())};
}

FailureOr<Values> BatchNormInferenceOp::decompose(OpBuilder &b) {
  Val x = widen(Val(b, getLoc(), getInput()));
  Dims extents = dimsOf(x);
  SmallVector<int64_t> dims = allButChannels(x.rank());
  auto full = [&](Val channel) {
    return unreduce(channel, extents, dims);
  };
  Val scale = rsqrt(widen(x.at(getVariance())) + getEps().convertToDouble());
  if (Value weight = getWeight())
    scale = scale * widen(x.at(weight));
  Val y = (x - full(widen(x.at(getMean())))) * full(scale);
  if (Value bias = getBias())
    y = y + full(widen(x.at(bias)));
  return Values{narrowTo(y, getResult())};
}

} // namespace weft::ir
