// Reference evaluation of elementwise ops with mixed dtypes, and of creation, movement, reduction,
// contraction, indexing and random ops.
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/reference/EvaluationIndex.h"
#include "dialects/weft/reference/Philox.h"

#include "mlir/IR/DialectResourceBlobManager.h"

namespace weft::ir {

using namespace mlir;

//===-- Elementwise ---------------------------------------------------------------------------===//

LogicalResult CompareOp::evaluate(EvalContext &ctx) {
  const HostTensor &x = ctx.operand(0), &y = ctx.operand(1);
  auto compare = [&](auto a, auto b) {
    switch (getDirection()) {
    case Direction::eq:
      return a == b;
    case Direction::ne:
      return a != b;
    case Direction::lt:
      return a < b;
    case Direction::le:
      return a <= b;
    case Direction::gt:
      return a > b;
    case Direction::ge:
      return a >= b;
    }
    llvm_unreachable("a direction outside its enum");
  };
  for (int64_t i = 0, n = x.size(); i < n; ++i)
    ctx.result().setInt(i, is_floating(x.dtype) ? compare(x.getDouble(i), y.getDouble(i))
                                                : compare(x.getInt(i), y.getInt(i)));
  return success();
}

LogicalResult SelectOp::evaluate(EvalContext &ctx) {
  for (int64_t i = 0, n = ctx.result().size(); i < n; ++i)
    copyElement(ctx.result(), i, ctx.operand(ctx.operand(0).getInt(i) ? 1 : 2), i);
  return success();
}

static int64_t saturate(double value, DType to) {
  if (to == DType::kUInt8)
    return saturating_int64(std::clamp(value, 0.0, 255.0));
  double bound = std::ldexp(1.0, static_cast<int>(byte_size(to)) * 8 - 1);
  // Between bounds one below 2^63, both exact, saturating_int64 does the rest; NaN passes
  // std::clamp and becomes 0.
  return to == DType::kInt64 ? saturating_int64(value)
                             : saturating_int64(std::clamp(value, -bound, bound - 1));
}

LogicalResult CastOp::evaluate(EvalContext &ctx) {
  const HostTensor &x = ctx.operand(0);
  HostTensor &y = ctx.result();
  bool fromFloat = is_floating(x.dtype);
  for (int64_t i = 0, n = x.size(); i < n; ++i) {
    if (y.dtype == DType::kBool)
      y.setInt(i, fromFloat ? x.getDouble(i) != 0 : x.getInt(i) != 0);
    else if (fromFloat && is_floating(y.dtype))
      y.set(i, x.getDouble(i));
    else if (fromFloat)
      y.setInt(i, saturate(x.getDouble(i), y.dtype));
    else
      y.setInt(i, x.getInt(i));
  }
  return success();
}

//===-- Creation and movement -----------------------------------------------------------------===//

LogicalResult ConstantOp::evaluate(EvalContext &ctx) {
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(getValue());
      resource && !resource.getRawHandle().getBlob())
    return ctx.error("has a resource '" + resource.getRawHandle().getKey() + "' without data");
  ctx.result() = HostTensor::from(getValue());
  return success();
}

LogicalResult IotaOp::evaluate(EvalContext &ctx) {
  for (int64_t i = 0, n = ctx.result().size(); i < n; ++i)
    ctx.result().setInt(i, coordsOf(i, ctx.result().shape)[getDim()]);
  return success();
}

LogicalResult ReshapeOp::evaluate(EvalContext &ctx) {
  ctx.result().bytes = ctx.operand(0).bytes;
  return success();
}

LogicalResult TransposeOp::evaluate(EvalContext &ctx) {
  const HostTensor &x = ctx.operand(0);
  Coords from(x.shape.size());
  for (int64_t i = 0, n = x.size(); i < n; ++i) {
    for (auto [d, c] : llvm::enumerate(coordsOf(i, ctx.result().shape)))
      from[getPermutation()[d]] = c;
    copyElement(ctx.result(), i, x, positionOf(from, x.shape));
  }
  return success();
}

LogicalResult BroadcastOp::evaluate(EvalContext &ctx) {
  HostTensor &y = ctx.result();
  for (int64_t i = 0, n = y.size(); i < n; ++i)
    copyElement(y, i, ctx.operand(0),
                broadcastPosition(coordsOf(i, y.shape), ctx.operand(0).shape));
  return success();
}

// Moves coordinates in a slice to those in the tensor that it is taken from.
static Coords sliced(Coords coords, ArrayRef<int64_t> starts, ArrayRef<int64_t> steps) {
  for (size_t d = 0; d < coords.size(); ++d)
    coords[d] = starts[d] + coords[d] * steps[d];
  return coords;
}

LogicalResult SliceOp::evaluate(EvalContext &ctx) {
  HostTensor &y = ctx.result();
  for (int64_t i = 0, n = y.size(); i < n; ++i)
    copyElement(
        y, i, ctx.operand(0),
        positionOf(sliced(coordsOf(i, y.shape), getStarts(), getSteps()), ctx.operand(0).shape));
  return success();
}

LogicalResult InsertSliceOp::evaluate(EvalContext &ctx) {
  HostTensor &y = ctx.result();
  const HostTensor &update = ctx.operand(1);
  y.bytes = ctx.operand(0).bytes;
  for (int64_t i = 0, n = update.size(); i < n; ++i)
    copyElement(y, positionOf(sliced(coordsOf(i, update.shape), getStarts(), getSteps()), y.shape),
                update, i);
  return success();
}

LogicalResult ConcatOp::evaluate(EvalContext &ctx) {
  HostTensor &y = ctx.result();
  int64_t start = 0;
  for (int64_t input = 0; input < ctx.numOperands(); ++input) {
    const HostTensor &x = ctx.operand(input);
    for (int64_t i = 0, n = x.size(); i < n; ++i) {
      Coords coords = coordsOf(i, x.shape);
      coords[getDim()] += start;
      copyElement(y, positionOf(coords, y.shape), x, i);
    }
    start += x.shape[getDim()];
  }
  return success();
}

//===-- Reduction and contraction -------------------------------------------------------------===//

// combine(accumulator, element) over the reduced dims of the input, in row-major order, from
// `initial`; finish(accumulator) is stored.
template <typename T, typename Combine, typename Finish>
static LogicalResult reduce(EvalContext &ctx, ArrayRef<int64_t> dims, T initial, Combine combine,
                            Finish finish) {
  const HostTensor &x = ctx.operand(0);
  HostTensor &y = ctx.result();
  std::vector<T> accumulators(y.size(), initial);
  for (int64_t i = 0, n = x.size(); i < n; ++i) {
    int64_t position = 0;
    for (auto [d, c] : llvm::enumerate(coordsOf(i, x.shape)))
      if (!llvm::is_contained(dims, static_cast<int64_t>(d)))
        position = position * x.shape[d] + c;
    accumulators[position] = combine(accumulators[position], EvalContext::load<T>(x, i));
  }
  for (int64_t i = 0, n = y.size(); i < n; ++i) {
    if constexpr (std::is_same_v<T, double>)
      y.set(i, finish(accumulators[i]));
    else
      y.setInt(i, finish(accumulators[i]));
  }
  return success();
}

static auto same = [](auto x) {
  return x;
};

LogicalResult ReduceSumOp::evaluate(EvalContext &ctx) {
  auto add = [](auto x, auto y) {
    return wrapping_add(x, y);
  };
  if (is_floating(ctx.result().dtype))
    return reduce<double>(ctx, getDims(), 0, add, same);
  return reduce<int64_t>(ctx, getDims(), 0, add, same);
}

// The ends of an integer dtype's range, bool's included.
static std::pair<int64_t, int64_t> rangeOf(DType dtype) {
  if (dtype == DType::kBool)
    return {0, 1};
  if (dtype == DType::kUInt8)
    return {0, 255};
  int64_t unused = 64 - 8 * byte_size(dtype);
  return {INT64_MIN >> unused, INT64_MAX >> unused};
}

LogicalResult ReduceMaxOp::evaluate(EvalContext &ctx) {
  auto larger = [](auto x, auto y) {
    return maximum_of(x, y);
  };
  DType dtype = ctx.result().dtype;
  if (is_floating(dtype))
    return reduce<double>(ctx, getDims(), -std::numeric_limits<double>::infinity(), larger, same);
  return reduce<int64_t>(ctx, getDims(), rangeOf(dtype).first, larger, same);
}

LogicalResult ReduceMinOp::evaluate(EvalContext &ctx) {
  auto smaller = [](auto x, auto y) {
    return minimum_of(x, y);
  };
  DType dtype = ctx.result().dtype;
  if (is_floating(dtype))
    return reduce<double>(ctx, getDims(), std::numeric_limits<double>::infinity(), smaller, same);
  return reduce<int64_t>(ctx, getDims(), rangeOf(dtype).second, smaller, same);
}

LogicalResult ReduceProdOp::evaluate(EvalContext &ctx) {
  auto times = [](auto x, auto y) {
    return wrapping_mul(x, y);
  };
  if (is_floating(ctx.result().dtype))
    return reduce<double>(ctx, getDims(), 1, times, same);
  return reduce<int64_t>(ctx, getDims(), 1, times, same);
}

LogicalResult ReduceMeanOp::evaluate(EvalContext &ctx) {
  double count = 1;
  for (int64_t dim : getDims())
    count *= static_cast<double>(ctx.operand(0).shape[dim]);
  return reduce<double>(ctx, getDims(), 0, std::plus<>(), [&](double sum) { return sum / count; });
}

// Each line along dim is walked from `start`, or from its end: carried = step(carried, position of
// the element, that of the one before it, or -1).
template <typename T, typename Step>
static void walkLines(EvalContext &ctx, int64_t dim, bool reverse, T start, Step step) {
  HostTensor &y = ctx.result();
  DimSplit split(y.shape, dim);
  for (int64_t o = 0; o < split.outer; ++o)
    for (int64_t i = 0; i < split.inner; ++i) {
      T carried = start;
      for (int64_t k = 0, before = -1; k < split.size; ++k) {
        int64_t at = split.at(o, reverse ? split.size - 1 - k : k, i);
        carried = step(carried, at, before);
        if constexpr (std::is_same_v<T, double>)
          y.set(at, carried);
        else
          y.setInt(at, carried);
        before = at;
      }
    }
}
// walk(0.0) for floats, walk(int64_t()) for integers.
template <typename Walk> static LogicalResult walkOf(EvalContext &ctx, Walk walk) {
  if (is_floating(ctx.result().dtype))
    walk(0.0);
  else
    walk(int64_t());
  return success();
}

LogicalResult CumsumOp::evaluate(EvalContext &ctx) {
  return walkOf(ctx, [&](auto zero) {
    using T = decltype(zero);
    walkLines<T>(ctx, getDim(), getReverse(), 0, [&](T sum, int64_t at, int64_t) -> T {
      return wrapping_add(sum, EvalContext::load<T>(ctx.operand(0), at));
    });
  });
}

LogicalResult CumprodOp::evaluate(EvalContext &ctx) {
  return walkOf(ctx, [&](auto zero) {
    using T = decltype(zero);
    walkLines<T>(ctx, getDim(), false, 1, [&](T product, int64_t at, int64_t) -> T {
      return wrapping_mul(product, EvalContext::load<T>(ctx.operand(0), at));
    });
  });
}

LogicalResult RecurrenceOp::evaluate(EvalContext &ctx) {
  bool reverse = getReverse();
  return walkOf(ctx, [&](auto zero) {
    using T = decltype(zero);
    walkLines<T>(ctx, getDim(), reverse, 0, [&](T carried, int64_t at, int64_t before) -> T {
      // In reverse nothing has a factor before the first step.
      int64_t factor = reverse ? before : at;
      T product =
          factor < 0 ? T(0) : wrapping_mul(carried, EvalContext::load<T>(ctx.operand(0), factor));
      return wrapping_add(product, EvalContext::load<T>(ctx.operand(1), at));
    });
  });
}

template <typename T, typename Better>
static void lastBest(EvalContext &ctx, int64_t dim, Better better) {
  const HostTensor &x = ctx.operand(0);
  DimSplit split(x.shape, dim);
  for (int64_t o = 0; o < split.outer; ++o)
    for (int64_t i = 0; i < split.inner; ++i)
      for (int64_t k = 0, best = 0; k < split.size; ++k) {
        T value = EvalContext::load<T>(x, split.at(o, best, i)),
          next = EvalContext::load<T>(x, split.at(o, k, i));
        if (next != next || better(next, value))
          best = k;
        ctx.result().setInt(split.at(o, k, i), best);
      }
}
template <typename Better>
static LogicalResult evaluateCumArg(EvalContext &ctx, int64_t dim, Better better) {
  if (is_floating(ctx.operand(0).dtype))
    lastBest<double>(ctx, dim, better);
  else
    lastBest<int64_t>(ctx, dim, better);
  return success();
}
LogicalResult CumArgMaxOp::evaluate(EvalContext &ctx) {
  return evaluateCumArg(ctx, getDim(), std::greater_equal<>());
}
LogicalResult CumArgMinOp::evaluate(EvalContext &ctx) {
  return evaluateCumArg(ctx, getDim(), std::less_equal<>());
}

template <typename T> static std::vector<T> valuesOf(const HostTensor &x) {
  std::vector<T> values(x.size());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = EvalContext::load<T>(x, i);
  return values;
}

template <typename T> static void multiply(EvalContext &ctx, bool transposeLhs, bool transposeRhs) {
  const HostTensor &a = ctx.operand(0), &b = ctx.operand(1);
  HostTensor &y = ctx.result();
  ArrayRef<int64_t> shapeA = a.shape, shapeB = b.shape, shape = y.shape;
  int64_t rows = shape.end()[-2], columns = shape.end()[-1],
          inner = transposeLhs ? shapeA.end()[-2] : shapeA.end()[-1];
  int64_t matrices = 1;
  for (int64_t n : shape.drop_back(2))
    matrices *= n;
  // Strides of the matrices' rows and columns as they are read.
  int64_t rowA = transposeLhs ? 1 : inner, columnA = transposeLhs ? rows : 1;
  int64_t rowB = transposeRhs ? 1 : columns, columnB = transposeRhs ? inner : 1;
  // Elements are read once each, not once for each product.
  std::vector<T> left = valuesOf<T>(a), right = valuesOf<T>(b);
  for (int64_t m = 0; m < matrices; ++m) {
    Coords coords = coordsOf(m, shape.drop_back(2));
    int64_t baseA = broadcastPosition(coords, shapeA.drop_back(2)) * rows * inner;
    int64_t baseB = broadcastPosition(coords, shapeB.drop_back(2)) * inner * columns;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        T sum = 0;
        for (int64_t k = 0; k < inner; ++k)
          sum = wrapping_add(sum, wrapping_mul(left[baseA + i * rowA + k * columnA],
                                               right[baseB + k * rowB + j * columnB]));
        if constexpr (std::is_same_v<T, double>)
          y.set((m * rows + i) * columns + j, sum);
        else
          y.setInt((m * rows + i) * columns + j, sum);
      }
  }
}

LogicalResult MatmulOp::evaluate(EvalContext &ctx) {
  if (is_floating(ctx.result().dtype))
    multiply<double>(ctx, getTransposeLhs(), getTransposeRhs());
  else
    multiply<int64_t>(ctx, getTransposeLhs(), getTransposeRhs());
  return success();
}

//===-- Indexing ------------------------------------------------------------------------------===//

// The index at position i, counted from the start. user: of the op.
static FailureOr<int64_t> indexAt(EvalContext &ctx, StringRef user, int64_t i, int64_t size) {
  int64_t index = ctx.operand(1).getInt(i);
  if (index >= -size && index < size)
    return index < 0 ? index + size : index;
  return ctx.badIndex(user, index, i, -size, size);
}

LogicalResult TransferOp::evaluate(EvalContext &ctx) {
  ctx.result().bytes = ctx.operand(0).bytes;
  return success();
}

LogicalResult DetachOp::evaluate(EvalContext &ctx) {
  ctx.result().bytes = ctx.operand(0).bytes;
  return success();
}

LogicalResult CheckIndexOp::evaluate(EvalContext &ctx) {
  const HostTensor &indices = ctx.operand(0);
  for (int64_t i = 0, n = indices.size(); i < n; ++i) {
    int64_t index = indices.getInt(i);
    std::optional<int64_t> ignored = getIgnoreIndex();
    int64_t size = getSize();
    if (index != ignored && (index < 0 || index >= size))
      return ctx.badIndex(getUser(), index, i, 0, size, ignored);
    ctx.result(0).setInt(i, index);
  }
  return success();
}

// The result as operand 0 combined with elements of operand 2, by addition if nothing else: floats
// in float64, rounded once; integers wrap.
struct Sum {
  template <typename T> T operator()(T x, T y) const {
    return wrapping_add(x, y);
  }
};
template <typename Combine = Sum> class Combinations {
public:
  explicit Combinations(EvalContext &ctx, Combine combine = {})
      : to_(ctx.result()), from_(ctx.operand(2)), combine_(combine) {
    to_.bytes = ctx.operand(0).bytes;
    if (!is_floating(to_.dtype))
      return;
    sums_.resize(to_.size());
    for (int64_t i = 0, n = to_.size(); i < n; ++i)
      sums_[i] = to_.getDouble(i);
  }
  void add(int64_t to, int64_t from) {
    if (sums_.empty())
      to_.setInt(to, combine_(to_.getInt(to), from_.getInt(from)));
    else
      sums_[to] = combine_(sums_[to], from_.getDouble(from));
  }
  void store() {
    for (size_t i = 0; i < sums_.size(); ++i)
      to_.set(static_cast<int64_t>(i), sums_[i]);
  }

private:
  HostTensor &to_;
  const HostTensor &from_;
  Combine combine_;
  std::vector<double> sums_;
};

// Calls visit(position in the tensor, position in the selection) for each pair that indices along
// dim match.
template <typename Op, typename Visit>
static LogicalResult visitSelected(EvalContext &ctx, Op op, Visit visit) {
  DimSplit split(ctx.operand(0).shape, op.getDim());
  int64_t count = ctx.operand(1).size();
  for (int64_t k = 0; k < count; ++k) {
    FailureOr<int64_t> index = indexAt(ctx, op.getUser(), k, split.size);
    if (failed(index))
      return failure();
    for (int64_t o = 0; o < split.outer; ++o)
      for (int64_t i = 0; i < split.inner; ++i)
        visit(split.at(o, *index, i), (o * count + k) * split.inner + i);
  }
  return success();
}

// The same where indices has the rank of the tensor and each of its elements moves one element
// along dim.
template <typename Op, typename Visit>
static LogicalResult visitGathered(EvalContext &ctx, Op op, Visit visit) {
  const HostTensor &indices = ctx.operand(1);
  ArrayRef<int64_t> shape = ctx.operand(0).shape;
  int64_t dim = op.getDim();
  for (int64_t i = 0, n = indices.size(); i < n; ++i) {
    FailureOr<int64_t> index = indexAt(ctx, op.getUser(), i, shape[dim]);
    if (failed(index))
      return failure();
    Coords coords = coordsOf(i, indices.shape);
    coords[dim] = *index;
    visit(positionOf(coords, shape), i);
  }
  return success();
}

LogicalResult IndexSelectOp::evaluate(EvalContext &ctx) {
  return visitSelected(ctx, *this, [&](int64_t from, int64_t to) {
    copyElement(ctx.result(), to, ctx.operand(0), from);
  });
}
LogicalResult IndexAddOp::evaluate(EvalContext &ctx) {
  Combinations sums(ctx);
  if (failed(visitSelected(ctx, *this, [&](int64_t to, int64_t from) { sums.add(to, from); })))
    return failure();
  sums.store();
  return success();
}
LogicalResult IndexPutOp::evaluate(EvalContext &ctx) {
  ctx.result().bytes = ctx.operand(0).bytes;
  return visitSelected(ctx, *this, [&](int64_t to, int64_t from) {
    copyElement(ctx.result(), to, ctx.operand(2), from);
  });
}
LogicalResult GatherOp::evaluate(EvalContext &ctx) {
  return visitGathered(ctx, *this, [&](int64_t from, int64_t to) {
    copyElement(ctx.result(), to, ctx.operand(0), from);
  });
}
LogicalResult ScatterOp::evaluate(EvalContext &ctx) {
  ctx.result().bytes = ctx.operand(0).bytes;
  return visitGathered(ctx, *this, [&](int64_t to, int64_t from) {
    copyElement(ctx.result(), to, ctx.operand(2), from);
  });
}
LogicalResult ScatterAddOp::evaluate(EvalContext &ctx) {
  Combinations sums(ctx);
  if (failed(visitGathered(ctx, *this, [&](int64_t to, int64_t from) { sums.add(to, from); })))
    return failure();
  sums.store();
  return success();
}
LogicalResult ScatterReduceOp::evaluate(EvalContext &ctx) {
  auto combined = [&](auto combine) -> LogicalResult {
    Combinations results(ctx, combine);
    if (failed(visitGathered(ctx, *this, [&](int64_t to, int64_t from) { results.add(to, from); })))
      return failure();
    results.store();
    return success();
  };
  switch (getCombiner()) {
  case Combiner::prod:
    return combined([](auto x, auto y) { return wrapping_mul(x, y); });
  case Combiner::max:
    return combined([](auto x, auto y) { return maximum_of(x, y); });
  case Combiner::min:
    return combined([](auto x, auto y) { return minimum_of(x, y); });
  }
  return failure();
}

//===-- Random --------------------------------------------------------------------------------===//

double uniformSample(const HostTensor &state, int64_t offset, int64_t element, DType dtype) {
  int bits = uniformBits(dtype);
  uint64_t firstBlock = static_cast<uint64_t>(state.getInt(1)) + static_cast<uint64_t>(offset);
  auto word = [&](uint32_t stream) -> uint64_t {
    return philoxWord(state.getInt(0), firstBlock, element, stream);
  };
  uint64_t words = word(0) << 32 | (bits > 32 ? word(1) : 0);
  return std::ldexp(static_cast<double>(words >> (64 - bits)), -bits);
}

LogicalResult RandomUniformOp::evaluate(EvalContext &ctx) {
  HostTensor &y = ctx.result();
  for (int64_t i = 0, n = y.size(); i < n; ++i)
    y.set(i, uniformSample(ctx.operand(0), getOffset(), i, y.dtype));
  return success();
}

LogicalResult RandomNormalOp::evaluate(EvalContext &ctx) {
  HostTensor &y = ctx.result();
  int64_t n = y.size(), second = static_cast<int64_t>(getOffset()) + philoxBlocks(n);
  DType drawn = y.dtype == DType::kFloat64 ? y.dtype : DType::kFloat32;
  for (int64_t i = 0; i < n; ++i) {
    double u1 = 1 - uniformSample(ctx.operand(0), getOffset(), i, drawn),
           u2 = uniformSample(ctx.operand(0), second, i, drawn);
    y.set(i, std::sqrt(-2 * std::log(u1)) * std::cos(2 * M_PI * u2));
  }
  return success();
}

LogicalResult RandomAdvanceOp::evaluate(EvalContext &ctx) {
  ctx.result().setInt(0, ctx.operand(0).getInt(0));
  ctx.result().setInt(1, wrapping_add(ctx.operand(0).getInt(1), static_cast<int64_t>(getAmount())));
  return success();
}

} // namespace weft::ir
