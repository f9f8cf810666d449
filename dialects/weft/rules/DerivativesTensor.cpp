// Derivative rules of movement, reduction, contraction and indexing ops.
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/rules/Composites.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

namespace weft::ir {

using namespace mlir;

//===-- Movement ------------------------------------------------------------------------------===//

LogicalResult ReshapeOp::differentiate(GradContext &ctx) {
  ctx.grad(0, reshapeTo(ctx.g(), dimsOf(ctx.operandType(0))));
  return success();
}

LogicalResult TransposeOp::differentiate(GradContext &ctx) {
  ctx.grad(0, transpose(ctx.g(), invertPermutationVector(
                                     ctx.properties<TransposeOp>().permutation.asArrayRef())));
  return success();
}

LogicalResult BroadcastOp::differentiate(GradContext &ctx) {
  ctx.grad(0, sumToDims(ctx.g(), dimsOf(ctx.operandType(0))));
  return success();
}

static Val zeros(GradContext &ctx, RankedTensorType type) {
  return zerosOf(ctx.g(), dimsOf(type));
}

static Val insertSlice(Val update, Val base, ArrayRef<int64_t> starts, ArrayRef<int64_t> steps) {
  return base.make<InsertSliceOp>(base.type(), base, update, starts, steps);
}

// The slice of `x` of the given shape.
static Val slice(Val x, ArrayRef<int64_t> shape, ArrayRef<int64_t> starts,
                 ArrayRef<int64_t> steps) {
  SmallVector<int64_t> limits;
  for (auto [size, start, step] : llvm::zip(shape, starts, steps))
    limits.push_back(size == 0 ? start : start + (size - 1) * step + (step > 0 ? 1 : -1));
  return x.make<SliceOp>(x, starts, limits, steps);
}

LogicalResult SliceOp::differentiate(GradContext &ctx) {
  const auto &p = ctx.properties<SliceOp>();
  ctx.grad(0, insertSlice(ctx.g(), zeros(ctx, ctx.operandType(0)), p.starts.asArrayRef(),
                          p.steps.asArrayRef()));
  return success();
}

// Slices are given by numbers, which places behind a symbolic size do not have.
static constexpr StringLiteral kSymbolicSlice = "its slices have symbolic sizes";

LogicalResult InsertSliceOp::differentiate(GradContext &ctx) {
  if (!ctx.operandType(1).hasStaticShape())
    return ctx.noRule(InsertSliceOp::getOperationName(), kSymbolicSlice);
  const auto &p = ctx.properties<InsertSliceOp>();
  ArrayRef<int64_t> starts = p.starts.asArrayRef(), steps = p.steps.asArrayRef();
  if (ctx.needs(0))
    ctx.grad(0, insertSlice(zeros(ctx, ctx.operandType(1)), ctx.g(), starts, steps));
  if (ctx.needs(1))
    ctx.grad(1, slice(ctx.g(), ctx.operandType(1).getShape(), starts, steps));
  return success();
}

LogicalResult ConcatOp::differentiate(GradContext &ctx) {
  for (int64_t i = 0; i < ctx.numOperands(); ++i)
    if (!ctx.operandType(i).hasStaticShape())
      return ctx.noRule(ConcatOp::getOperationName(), kSymbolicSlice);
  int64_t dim = ctx.properties<ConcatOp>().dim.getInt(), rank = ctx.resultType(0).getRank();
  SmallVector<int64_t> starts(rank, 0), steps(rank, 1);
  for (int64_t i = 0; i < ctx.numOperands(); ++i) {
    ArrayRef<int64_t> shape = ctx.operandType(i).getShape();
    if (ctx.needs(i))
      ctx.grad(i, slice(ctx.g(), shape, starts, steps));
    starts[dim] += shape[dim];
  }
  return success();
}

//===-- Reduction -----------------------------------------------------------------------------===//

LogicalResult ReduceSumOp::differentiate(GradContext &ctx) {
  ctx.grad(0, unreduce(ctx.g(), dimsOf(ctx.operandType(0)),
                       ctx.properties<ReduceSumOp>().dims.asArrayRef()));
  return success();
}

template <typename Op> static LogicalResult differentiateExtreme(GradContext &ctx) {
  Val x = ctx.operand(0);
  ArrayRef<int64_t> dims = ctx.properties<Op>().dims.asArrayRef();
  Dims extents = dimsOf(x);
  Val ties =
      cast(compare("eq", x, unreduce(ctx.result(0), extents, dims)), x.type().getElementType());
  // A product, not a select: where the extreme is NaN nothing ties with it, and the gradient must
  // be NaN (0 * g / 0), not 0. Ties are counted in f32 at least: f16 ends at 65504.
  Val share = ctx.at(narrowTo(widen(ctx.g()) / sum(widen(ties), dims), ctx.g()));
  ctx.grad(0, ties * unreduce(share, extents, dims));
  return success();
}
LogicalResult ReduceMaxOp::differentiate(GradContext &ctx) {
  return differentiateExtreme<ReduceMaxOp>(ctx);
}
LogicalResult ReduceMinOp::differentiate(GradContext &ctx) {
  return differentiateExtreme<ReduceMinOp>(ctx);
}

// The gradient of a factor that is 0: the product of the others. It is the `rest`, those that are
// not 0, if no other is 0. If one is, it is 0, but has a derivative by that one: hence the other
// zeros' sum as a factor. With more of them the first two derivatives are 0. A factor that is not 0
// has the product over the factor, whose derivatives are right with zeros among the others.
static Val ofZeroFactor(Val rest, Val zeros, Val otherZeros) {
  return select(
      compare("eq", zeros, zeros.constant(1)), rest,
      select(compare("eq", zeros, zeros.constant(2)), rest * otherZeros, rest.constant(0)));
}

LogicalResult ReduceProdOp::differentiate(GradContext &ctx) {
  Val x = ctx.operand(0);
  ArrayRef<int64_t> dims = ctx.properties<ReduceProdOp>().dims.asArrayRef();
  Dims extents = dimsOf(x);
  auto full = [&](Val row) {
    return unreduce(row, extents, dims);
  };
  Val zero = x.constant(0), one = x.constant(1), isZero = compare("eq", x, zero),
      nonzero = select(isZero, one, x);
  Val rest = full(ctx.g() * prod(nonzero, dims)), mine = select(isZero, x, zero);
  ctx.grad(0, select(isZero,
                     ofZeroFactor(rest, full(sum(select(isZero, one, zero), dims)),
                                  full(sum(mine, dims)) - mine),
                     full(ctx.g() * prod(x, dims)) / nonzero));
  return success();
}

LogicalResult ReduceMeanOp::differentiate(GradContext &ctx) {
  Dims extents = dimsOf(ctx.operandType(0));
  ArrayRef<int64_t> dims = ctx.properties<ReduceMeanOp>().dims.asArrayRef();
  ctx.grad(0, unreduce(divideByCount(ctx.g(), extents, dims), extents, dims));
  return success();
}

//===-- Scan ----------------------------------------------------------------------------------===//

LogicalResult CumsumOp::differentiate(GradContext &ctx) {
  const auto &p = ctx.properties<CumsumOp>();
  bool reverse = p.reverse && p.reverse.getValue();
  ctx.grad(0, ctx.make<CumsumOp>(ctx.g().type(), ctx.g(), p.dim.getInt(), !reverse));
  return success();
}

// x moved on by one along dim, with `first` where nothing has come to.
static Val movedOn(Val x, int64_t dim, double first) {
  Val base = x.constant(first);
  SmallVector<int64_t> shape(x.shape()), starts(shape.size(), 0), steps(shape.size(), 1);
  if (shape[dim] < 2)
    return base;
  --shape[dim];
  Val all = slice(x, shape, starts, steps);
  starts[dim] = 1;
  return insertSlice(all, base, starts, steps);
}

static Val recurrence(Val factor, Val input, int64_t dim, bool reverse) {
  return input.make<RecurrenceOp>(input.type(), factor, input, dim, reverse);
}

// What comes after an element has it as a factor: result[k - 1] times the sum of the gradients from
// k on, each times the factors between.
LogicalResult CumprodOp::differentiate(GradContext &ctx) {
  if (!ctx.operandType(0).hasStaticShape())
    return ctx.noRule(CumprodOp::getOperationName(), kSymbolicSlice);
  int64_t dim = ctx.properties<CumprodOp>().dim.getInt();
  ctx.grad(0, movedOn(ctx.result(0), dim, 1) *
                  recurrence(ctx.operand(0), ctx.g(), dim, /*reverse=*/true));
  return success();
}

LogicalResult RecurrenceOp::differentiate(GradContext &ctx) {
  if (!ctx.operandType(0).hasStaticShape())
    return ctx.noRule(RecurrenceOp::getOperationName(), kSymbolicSlice);
  const auto &p = ctx.properties<RecurrenceOp>();
  bool reverse = p.reverse && p.reverse.getValue();
  int64_t dim = p.dim.getInt();
  Val back = recurrence(ctx.operand(0), ctx.g(), dim, !reverse), result = ctx.result(0);
  ctx.grad(1, back);
  // factor[k] takes result[k - 1] to k; in reverse, result[k] to k - 1.
  ctx.grad(0, reverse ? movedOn(back, dim, 0) * result : back * movedOn(result, dim, 0));
  return success();
}

//===-- Contraction ---------------------------------------------------------------------------===//

static bool isSet(BoolAttr flag) {
  return flag && flag.getValue();
}

// x with all leading dims folded into the rows.
static Val flattenRows(Val x) {
  Dims dims = dimsOf(x);
  int64_t rows = 1;
  for (const Dim &dim : ArrayRef<Dim>(dims).drop_back())
    rows *= dim.size;
  return reshapeTo(x, {rows, dims.back()});
}

LogicalResult MatmulOp::differentiate(GradContext &ctx) {
  const auto &p = ctx.properties<MatmulOp>();
  bool transposeLhs = isSet(p.transpose_lhs), transposeRhs = isSet(p.transpose_rhs);
  Dims lhsDims = dimsOf(ctx.operandType(0)), rhsDims = dimsOf(ctx.operandType(1));
  Val g = ctx.g();
  // Each gradient is one matmul that reads its inputs as they lie, transposed by flags only.
  if (ctx.needs(0)) {
    Val rhs = ctx.operand(1);
    Val grad =
        transposeLhs ? matmul(rhs, g, transposeRhs, true) : matmul(g, rhs, false, !transposeRhs);
    ctx.grad(0, sumToDims(grad, lhsDims));
  }
  if (ctx.needs(1)) {
    Val lhs = ctx.operand(0);
    bool sharedRhs = llvm::all_of(ArrayRef<Dim>(rhsDims).drop_back(2),
                                  [](const Dim &dim) { return dim.isOne(); });
    // Symbolic rows have no name for their product: their batch stays.
    bool staticRows = llvm::all_of(ArrayRef<Dim>(lhsDims).drop_back(),
                                   [](const Dim &dim) { return dim.isStatic(); });
    if (sharedRhs && !transposeLhs && lhsDims.size() > 2 && staticRows) {
      // One right side for the whole batch (a weight): the batch is part of the contraction, not a
      // sum over products.
      lhs = flattenRows(lhs);
      g = flattenRows(g);
    }
    Val grad =
        transposeRhs ? matmul(g, lhs, true, transposeLhs) : matmul(lhs, g, !transposeLhs, false);
    ctx.grad(1, reshapeTo(sumToDims(grad, ArrayRef<Dim>(rhsDims).take_back(grad.rank())), rhsDims));
  }
  return success();
}

//===-- Indexing ------------------------------------------------------------------------------===//
// What looks at the same indices names the same call in errors.

LogicalResult IndexSelectOp::differentiate(GradContext &ctx) {
  Val base = zeros(ctx, ctx.operandType(0));
  const auto &p = ctx.properties<IndexSelectOp>();
  ctx.grad(0, ctx.make<IndexAddOp>(base.type(), base, ctx.operand(1), ctx.g(), p.dim.getInt(),
                                   p.user.getValue()));
  return success();
}

LogicalResult IndexAddOp::differentiate(GradContext &ctx) {
  ctx.grad(0, ctx.g());
  const auto &p = ctx.properties<IndexAddOp>();
  if (ctx.needs(2))
    ctx.grad(2,
             ctx.make<IndexSelectOp>(ctx.g(), ctx.operand(1), p.dim.getInt(), p.user.getValue()));
  return success();
}

LogicalResult IndexPutOp::differentiate(GradContext &ctx) {
  Val indices = ctx.operand(1), g = ctx.g();
  int64_t dim = ctx.properties<IndexPutOp>().dim.getInt();
  StringRef user = ctx.properties<IndexPutOp>().user.getValue();
  auto put = [&](Val base, Val source, int64_t at) {
    return ctx.make<IndexPutOp>(base.type(), base, indices, source, at, user);
  };
  auto selected = [&](Val from, int64_t at) {
    return ctx.make<IndexSelectOp>(from, indices, at, user);
  };
  Dims baseDims = dimsOf(ctx.operandType(0)), sourceDims = dimsOf(ctx.operandType(2)),
       taken = dimsOf(indices);
  ctx.grad(0, put(g, zerosOf(g, sourceDims), dim));
  if (!ctx.needs(2))
    return success();
  // Of several slices for one index only the last has a gradient: each index's number is put where
  // its slice was, and read back.
  if (!indices.type().hasStaticShape())
    return ctx.noRule(IndexPutOp::getOperationName(), "its indices have symbolic sizes");
  int64_t count = indices.type().getNumElements();
  Val number = reshapeTo(iota(indices, {count}, 0, ctx.builder().getI64Type()), taken);
  Val none = zerosOf(number, {baseDims[dim]});
  Val last = compare("eq", selected(put(none, number, 0), 0), number);
  Dims raised(sourceDims.size(), 1);
  llvm::copy(taken, raised.begin() + dim);
  Val chosen = selected(g, dim);
  ctx.grad(2, select(broadcastTo(reshapeTo(last, raised), sourceDims), chosen, chosen.constant(0)));
  return success();
}

LogicalResult GatherOp::differentiate(GradContext &ctx) {
  Val base = zeros(ctx, ctx.operandType(0));
  const auto &p = ctx.properties<GatherOp>();
  ctx.grad(0, ctx.make<ScatterAddOp>(base.type(), base, ctx.operand(1), ctx.g(), p.dim.getInt(),
                                     p.user.getValue()));
  return success();
}

LogicalResult ScatterOp::differentiate(GradContext &ctx) {
  Val indices = ctx.operand(1), g = ctx.g();
  const auto &p = ctx.properties<ScatterOp>();
  int64_t dim = p.dim.getInt();
  StringRef user = p.user.getValue();
  auto put = [&](Val base, Val source) {
    return ctx.make<ScatterOp>(base.type(), base, indices, source, dim, user);
  };
  auto gathered = [&](Val from) {
    return ctx.make<GatherOp>(from, indices, dim, user);
  };
  ctx.grad(0, put(g, zeros(ctx, ctx.operandType(2))));
  if (!ctx.needs(2))
    return success();
  // Of several elements for one place only the last has a gradient, as in IndexPutOp: numbers along
  // dim tell them apart, since no others meet.
  RankedTensorType numbers =
      tensorOf(dimsOf(indices), ctx.builder().getI64Type()); // of symbolic sizes, too
  Val number = ctx.make<IotaOp>(numbers, dim);
  Val last = compare("eq", gathered(put(zerosOf(number, dimsOf(g)), number)), number);
  Val chosen = gathered(g);
  ctx.grad(2, select(last, chosen, chosen.constant(0)));
  return success();
}

LogicalResult ScatterAddOp::differentiate(GradContext &ctx) {
  ctx.grad(0, ctx.g());
  const auto &p = ctx.properties<ScatterAddOp>();
  if (ctx.needs(2))
    ctx.grad(2, ctx.make<GatherOp>(ctx.g(), ctx.operand(1), p.dim.getInt(), p.user.getValue()));
  return success();
}

LogicalResult ScatterReduceOp::differentiate(GradContext &ctx) {
  const auto &p = ctx.properties<ScatterReduceOp>();
  Combiner combiner = p.combiner.getValue();
  int64_t dim = p.dim.getInt();
  StringRef user = p.user.getValue();
  Val base = ctx.operand(0), indices = ctx.operand(1), source = ctx.operand(2),
      result = ctx.result(0), g = ctx.g();
  Type element = base.type().getElementType();
  auto gathered = [&](Val x) {
    return ctx.make<GatherOp>(x, indices, dim, user);
  };
  auto added = [&](Val to, Val from) {
    return ctx.make<ScatterAddOp>(to.type(), to, indices, from, dim, user);
  };
  if (combiner != Combiner::prod) {
    Val mine = cast(compare("eq", base, result), element),
        theirs = cast(compare("eq", source, gathered(result)), element);
    // Products, not selects: where the extreme is NaN nothing ties with it, and the gradient must
    // be NaN (0 * g / 0), not 0.
    Val share = ctx.at(
        narrowTo(widen(g) / added(widen(mine), widen(theirs)), g)); // counted in f32 at least
    ctx.grad(0, mine * share);
    ctx.grad(2, theirs * gathered(share));
    return success();
  }
  auto product = [&](Val to, Val from) {
    return ctx.make<ScatterReduceOp>(to.type(), combiner, to, indices, from, dim, user);
  };
  Val one = base.constant(1), sourceOne = source.constant(1);
  if (ctx.needs(0)) {
    Val nonzero = select(compare("eq", base, base.constant(0)), one, base);
    ctx.grad(0, g * (product(nonzero, source) / nonzero));
  }
  if (ctx.needs(2)) {
    Val zero = source.constant(0), isZero = compare("eq", source, zero),
        nonzero = select(isZero, sourceOne, source), mine = select(isZero, source, zero);
    auto total = [&](Val x) {
      return gathered(added(zerosOf(base, dimsOf(base)), x));
    };
    Val ofZero = ofZeroFactor(gathered(g * product(base, nonzero)), total(cast(isZero, element)),
                              total(mine) - mine);
    ctx.grad(2, select(isZero, ofZero, gathered(g * result) / nonzero));
  }
  return success();
}

} // namespace weft::ir
