// Shape and dtype rules and verifiers of creation, movement, reduction, contraction and indexing
// ops.
#include "dialects/weft/rules/RuleChecks.h"

namespace weft::ir {

using namespace mlir;

using MaybeLocation = std::optional<Location>;
using Types = SmallVectorImpl<Type>;

static std::string spellInts(ArrayRef<int64_t> values) {
  return spell(Dims(values.begin(), values.end()));
}

//===-- Elementwise and creation --------------------------------------------------------------===//

LogicalResult CompareOp::inferReturnTypes(MLIRContext *context, MaybeLocation loc, Adaptor op,
                                          Types &types) {
  RuleChecks check(loc, getOperationName());
  RankedTensorType lhs = check.tensor(op.getLhs(), "lhs");
  if (!lhs)
    return failure();
  types.push_back(lhs.clone(IntegerType::get(context, 1)));
  return success();
}

LogicalResult PolygammaOp::verify() {
  if (static_cast<int64_t>(getOrder()) >= 0)
    return success();
  return RuleChecks(*this).error("order is " + Twine(static_cast<int64_t>(getOrder())) +
                                 "; it must be 0 or more");
}

LogicalResult CastOp::verify() {
  RankedTensorType from = getInput().getType(), to = getType();
  if (dimsOf(from) == dimsOf(to))
    return success();
  return RuleChecks(*this).error("cannot cast " + spell(from) + " to " + spell(to) +
                                 ": a cast keeps the shape; reshape or broadcast apart from it");
}

LogicalResult IotaOp::verify() {
  return RuleChecks(*this).dim(getDim(), getType(), "the result");
}

//===-- Movement ------------------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  RankedTensorType from = getInput().getType(), to = getType();
  RuleChecks check(*this);
  if (from.getElementType() != to.getElementType())
    return check.error("cannot reshape " + spell(from) + " to " + spell(to) +
                       ": a reshape keeps the dtype; cast apart from it");
  if (sameNumberOfElements(dimsOf(from), dimsOf(to)))
    return success();
  return check.error("cannot reshape " + spell(from) + " to " + spell(to) +
                     ": the numbers of elements differ");
}

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor op,
                                            Types &types) {
  RuleChecks check(loc, getOperationName());
  RankedTensorType input = check.tensor(op.getInput(), "input");
  if (!input)
    return failure();
  Dims from = dimsOf(input), to;
  llvm::SmallBitVector seen(from.size());
  for (int64_t dim : op.getPermutation()) {
    bool inRange = dim >= 0 && dim < static_cast<int64_t>(from.size());
    if (!inRange || seen[dim])
      return check.error("permutation " + spellInts(op.getPermutation()) + " of " + spell(input) +
                         (inRange ? " repeats" : " has the out-of-range") + " dimension " +
                         Twine(dim) + "; name each dimension once");
    seen.set(dim);
    to.push_back(from[dim]);
  }
  if (to.size() != from.size())
    return check.error("permutation " + spellInts(op.getPermutation()) + " has " +
                       Twine(to.size()) + " entries, but input is " + spell(input) +
                       "; name each dimension once");
  types.push_back(tensorOf(to, input.getElementType()));
  return success();
}

LogicalResult BroadcastOp::verify() {
  RankedTensorType from = getInput().getType(), to = getType();
  RuleChecks check(*this);
  if (from.getElementType() != to.getElementType())
    return check.error("cannot broadcast " + spell(from) + " to " + spell(to) +
                       ": a broadcast keeps the dtype; cast apart from it");
  if (broadcastsTo(dimsOf(from), dimsOf(to)))
    return success();
  return check.error("cannot broadcast " + spell(from) + " to " + spell(to) +
                     ": aligned at the end, each size must be equal or 1");
}

LogicalResult SliceOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor op,
                                        Types &types) {
  RuleChecks check(loc, getOperationName());
  RankedTensorType input = check.tensor(op.getInput(), "input");
  if (!input)
    return failure();
  ArrayRef<int64_t> starts = op.getStarts(), limits = op.getLimits(), steps = op.getSteps();
  Dims dims = dimsOf(input);
  if (starts.size() != dims.size() || limits.size() != dims.size() || steps.size() != dims.size())
    return check.error("input is " + spell(input) + " but there are " + Twine(starts.size()) +
                       " starts, " + Twine(limits.size()) + " limits and " + Twine(steps.size()) +
                       " steps; give one of each for each dimension");
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t start = starts[i], limit = limits[i], step = steps[i];
    if (!dims[i].isStatic()) {
      // Only the whole of a symbolic dim has a size with a name.
      if (start == 0 && step == 1 && limit == ShapedType::kDynamic)
        continue;
      return check.error("dimension " + Twine(i) + " of input, " + spell(input) +
                         ", is symbolic and can only be taken whole");
    }
    int64_t size = dims[i].size;
    bool fits = step > 0   ? 0 <= start && start <= limit && limit <= size
                : step < 0 ? -1 <= limit && limit <= start &&
                                 start < std::max<int64_t>(size, start == limit)
                           : false;
    if (!fits)
      return check.error("slice " + Twine(start) + ":" + Twine(limit) + ":" + Twine(step) +
                         " of dimension " + Twine(i) + " does not lie in input, " + spell(input) +
                         (step == 0 ? "; the step must not be 0"
                                    : "; start and limit must lie in it, in the step's direction"));
    // Neither difference nor step can overflow here: all of them but the step lie in [-1, size].
    uint64_t distance = step > 0 ? limit - start : start - limit;
    uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
    dims[i] = static_cast<int64_t>(distance / stride + (distance % stride != 0));
  }
  types.push_back(tensorOf(dims, input.getElementType()));
  return success();
}

LogicalResult InsertSliceOp::verify() {
  RankedTensorType base = getBase().getType(), update = getUpdate().getType();
  RuleChecks check(*this);
  if (failed(check.sameElement(base, "base", update, "update")))
    return failure();
  if (base.getRank() != update.getRank() ||
      static_cast<int64_t>(getStarts().size()) != base.getRank() ||
      static_cast<int64_t>(getSteps().size()) != base.getRank())
    return check.error(
        "base is " + spell(base) + ", update is " + spell(update) + ", with " +
        Twine(getStarts().size()) + " starts and " + Twine(getSteps().size()) +
        " steps; base and update must have one rank, with one start and step for each dimension");
  Dims baseDims = dimsOf(base), updateDims = dimsOf(update);
  for (auto [i, from, to, start, step] :
       llvm::enumerate(updateDims, baseDims, getStarts(), getSteps())) {
    if (!from.isStatic() || !to.isStatic()) {
      if (from == to && start == 0 && step == 1)
        continue;
      return check.error("dimension " + Twine(i) + " of base, " + spell(base) + ", or update, " +
                         spell(update) + ", is symbolic and can only be replaced whole");
    }
    __int128 last = static_cast<__int128>(start) + static_cast<__int128>(step) * (from.size - 1);
    if (step != 0 &&
        (from.size == 0 || (start >= 0 && start < to.size && last >= 0 && last < to.size)))
      continue;
    return check.error("update, " + spell(update) + ", placed from " + Twine(start) +
                       " in steps of " + Twine(step) + " along dimension " + Twine(i) +
                       ", does not lie in base, " + spell(base));
  }
  return success();
}

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor op,
                                         Types &types) {
  RuleChecks check(loc, getOperationName());
  if (op.getInputs().empty())
    return check.error("there is nothing to concatenate; give at least one tensor");
  RankedTensorType first = check.tensor(op.getInputs()[0], "input 0");
  int64_t dim = op.getDim();
  if (!first || failed(check.dim(dim, first, "input 0")))
    return failure();
  Dims dims = dimsOf(first);
  for (auto [i, input] : llvm::enumerate(op.getInputs().drop_front())) {
    std::string name = ("input " + Twine(i + 1)).str();
    RankedTensorType type = check.tensor(input, name);
    if (!type || failed(check.sameElement(first, "input 0", type, name)))
      return failure();
    Dims next = dimsOf(type);
    bool fits = next.size() == dims.size();
    for (size_t d = 0; fits && d < dims.size(); ++d)
      fits = static_cast<int64_t>(d) == dim || next[d] == dims[d];
    if (!fits)
      return check.error("input 0 is " + spell(first) + " but " + name + " is " + spell(type) +
                         "; all inputs must have one rank, and one size in each dimension but " +
                         Twine(dim));
    if (!dims[dim].isStatic() || !next[dim].isStatic())
      return check.error("the size of dimension " + Twine(dim) +
                         " of the result would be the sum of those of input 0, " + spell(first) +
                         ", and " + name + ", " + spell(type) + ", which has no name");
    if (__builtin_add_overflow(dims[dim].size, next[dim].size, &dims[dim].size))
      return check.error("the result is too large: the sizes of dimension " + Twine(dim) +
                         " add up to more than 64 bits hold");
  }
  types.push_back(tensorOf(dims, first.getElementType()));
  return success();
}

//===-- Reduction -----------------------------------------------------------------------------===//

template <typename Op>
static LogicalResult inferReduction(MaybeLocation loc, typename Op::Adaptor op, Types &types) {
  RuleChecks check(loc, Op::getOperationName());
  RankedTensorType input = check.tensor(op.getInput(), "input");
  if (!input)
    return failure();
  int64_t previous = -1;
  for (int64_t dim : op.getDims()) {
    if (failed(check.dim(dim, input, "input")))
      return failure();
    if (dim <= previous)
      return check.error("dims " + spellInts(op.getDims()) + " of " + spell(input) +
                         " must be sorted, each once");
    previous = dim;
  }
  Dims dims;
  for (auto [i, dim] : llvm::enumerate(dimsOf(input)))
    if (!llvm::is_contained(op.getDims(), static_cast<int64_t>(i)))
      dims.push_back(dim);
  types.push_back(tensorOf(dims, input.getElementType()));
  return success();
}

LogicalResult ReduceSumOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor op,
                                            Types &types) {
  return inferReduction<ReduceSumOp>(loc, op, types);
}
LogicalResult ReduceMaxOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor op,
                                            Types &types) {
  return inferReduction<ReduceMaxOp>(loc, op, types);
}
LogicalResult ReduceMinOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor op,
                                            Types &types) {
  return inferReduction<ReduceMinOp>(loc, op, types);
}
LogicalResult ReduceProdOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor op,
                                             Types &types) {
  return inferReduction<ReduceProdOp>(loc, op, types);
}
LogicalResult ReduceMeanOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor op,
                                             Types &types) {
  return inferReduction<ReduceMeanOp>(loc, op, types);
}

LogicalResult CumsumOp::verify() {
  return RuleChecks(*this).dim(getDim(), getType(), "input");
}
LogicalResult CumprodOp::verify() {
  return RuleChecks(*this).dim(getDim(), getType(), "input");
}
LogicalResult RecurrenceOp::verify() {
  return RuleChecks(*this).dim(getDim(), getType(), "input");
}

template <typename Op>
static LogicalResult inferCumArg(MLIRContext *context, MaybeLocation loc, typename Op::Adaptor op,
                                 Types &types) {
  RuleChecks check(loc, Op::getOperationName());
  RankedTensorType input = check.tensor(op.getInput(), "input");
  if (!input)
    return failure();
  if (!op.getDimAttr())
    return check.error("needs the attribute dim");
  if (failed(check.dim(op.getDim(), input, "input")))
    return failure();
  types.push_back(tensorOf(dimsOf(input), IntegerType::get(context, 64)));
  return success();
}
LogicalResult CumArgMaxOp::inferReturnTypes(MLIRContext *context, MaybeLocation loc, Adaptor op,
                                            Types &types) {
  return inferCumArg<CumArgMaxOp>(context, loc, op, types);
}
LogicalResult CumArgMinOp::inferReturnTypes(MLIRContext *context, MaybeLocation loc, Adaptor op,
                                            Types &types) {
  return inferCumArg<CumArgMinOp>(context, loc, op, types);
}

//===-- Contraction ---------------------------------------------------------------------------===//

LogicalResult MatmulOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor op,
                                         Types &types) {
  RuleChecks check(loc, getOperationName());
  RankedTensorType lhs = check.tensor(op.getLhs(), "lhs"), rhs = check.tensor(op.getRhs(), "rhs");
  if (!lhs || !rhs || failed(check.sameElement(lhs, "lhs", rhs, "rhs")))
    return failure();
  if (lhs.getRank() < 2 || rhs.getRank() < 2)
    return check.error("lhs is " + spell(lhs) + " and rhs is " + spell(rhs) +
                       "; both need at least 2 dimensions, reshape them");
  Dims a = dimsOf(lhs), b = dimsOf(rhs);
  // A transposed side is read with its last two dimensions exchanged.
  // While an op is being parsed its flags are still in the dictionary, or nowhere when they are at
  // their default.
  auto isSet = [&](BoolAttr flag, StringRef name) {
    if (!flag && op.getAttributes())
      flag = op.getAttributes().getAs<BoolAttr>(name);
    return flag && flag.getValue();
  };
  bool transposeLhs = isSet(op.getTransposeLhsAttr(), "transpose_lhs"),
       transposeRhs = isSet(op.getTransposeRhsAttr(), "transpose_rhs");
  Dim columns = transposeLhs ? a.end()[-2] : a.end()[-1],
      rows = transposeRhs ? b.end()[-1] : b.end()[-2];
  auto name = [](StringRef side, bool transposed) {
    return (side + (transposed ? " (transposed)" : "")).str();
  };
  std::string both = name("lhs", transposeLhs) + ", " + spell(lhs) + ", and " +
                     name("rhs", transposeRhs) + ", " + spell(rhs) + ", do not fit: ";
  if (columns != rows)
    return check.error(both + "the columns of lhs, " + spell(ArrayRef(columns)) +
                       ", must be as many as the rows of rhs, " + spell(ArrayRef(rows)));
  std::optional<Dims> dims = broadcastDims(ArrayRef(a).drop_back(2), ArrayRef(b).drop_back(2));
  if (!dims)
    return check.error(both + "aligned at the end, each of their leading sizes must be equal or 1");
  dims->push_back(transposeLhs ? a.end()[-1] : a.end()[-2]);
  dims->push_back(transposeRhs ? b.end()[-2] : b.end()[-1]);
  types.push_back(tensorOf(*dims, lhs.getElementType()));
  return success();
}

//===-- Indexing ------------------------------------------------------------------------------===//

// In a dim without elements no index is in range, and kernels of a result without elements read no
// indices.
static LogicalResult checkReached(const RuleChecks &check, RankedTensorType indexed, StringRef name,
                                  RankedTensorType indices, int64_t dim) {
  if (indexed.getDimSize(dim) != 0 || !indices.hasStaticShape() || indices.getNumElements() == 0)
    return success();
  return check.error("indices is " + spell(indices) + ", but dim " + Twine(dim) + " of " + name +
                     ", " + spell(indexed) +
                     ", has no elements, so that every index is out of range");
}

LogicalResult IndexSelectOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor op,
                                              Types &types) {
  RuleChecks check(loc, getOperationName());
  RankedTensorType input = check.tensor(op.getInput(), "input"),
                   indices = check.tensor(op.getIndices(), "indices");
  if (!input || !indices || failed(check.index(indices)) ||
      failed(check.dim(op.getDim(), input, "input")) ||
      failed(checkReached(check, input, "input", indices, op.getDim())))
    return failure();
  Dims dims = dimsOf(input), taken = dimsOf(indices);
  Dims result(dims.begin(), dims.begin() + op.getDim());
  result.append(taken.begin(), taken.end());
  result.append(dims.begin() + op.getDim() + 1, dims.end());
  types.push_back(tensorOf(result, input.getElementType()));
  return success();
}

template <typename Op> static LogicalResult verifyIndexed(Op op) {
  RankedTensorType base = op.getBase().getType(), source = op.getSource().getType(),
                   indices = op.getIndices().getType();
  RuleChecks check(op);
  int64_t dim = op.getDim();
  if (failed(check.dim(dim, base, "base")) ||
      failed(check.sameElement(base, "base", source, "source")))
    return failure();
  Dims dims = dimsOf(base), taken = dimsOf(indices);
  Dims expected(dims.begin(), dims.begin() + dim);
  expected.append(taken.begin(), taken.end());
  expected.append(dims.begin() + dim + 1, dims.end());
  if (dimsOf(source) == expected)
    return checkReached(check, base, "base", indices, dim);
  return check.error("base is " + spell(base) + " and indices is " + spell(indices) +
                     ", so source must have the shape " + spell(expected) + ", but is " +
                     spell(source));
}
LogicalResult IndexAddOp::verify() {
  return verifyIndexed(*this);
}
LogicalResult IndexPutOp::verify() {
  return verifyIndexed(*this);
}

// indices must have the rank of the indexed tensor, and be no larger than it except along dim.
static LogicalResult checkGather(const RuleChecks &check, RankedTensorType indexed, StringRef name,
                                 RankedTensorType indices, int64_t dim) {
  if (failed(check.index(indices)) || failed(check.dim(dim, indexed, name)))
    return failure();
  bool fits = indexed.getRank() == indices.getRank();
  if (fits)
    for (auto [i, have, want] : llvm::enumerate(dimsOf(indexed), dimsOf(indices)))
      fits &= static_cast<int64_t>(i) == dim || have == want ||
              (have.isStatic() && want.isStatic() && want.size <= have.size);
  if (fits)
    return success();
  return check.error(
      name + " is " + spell(indexed) + " but indices is " + spell(indices) +
      "; they must have one rank, and indices must not be larger in any dimension but " +
      Twine(dim));
}

LogicalResult GatherOp::inferReturnTypes(MLIRContext *, MaybeLocation loc, Adaptor op,
                                         Types &types) {
  RuleChecks check(loc, getOperationName());
  RankedTensorType input = check.tensor(op.getInput(), "input"),
                   indices = check.tensor(op.getIndices(), "indices");
  if (!input || !indices || failed(checkGather(check, input, "input", indices, op.getDim())) ||
      failed(checkReached(check, input, "input", indices, op.getDim())))
    return failure();
  types.push_back(indices.clone(input.getElementType()));
  return success();
}

template <typename Op> static LogicalResult verifyScatter(Op op) {
  RankedTensorType base = op.getBase().getType(), source = op.getSource().getType(),
                   indices = op.getIndices().getType();
  RuleChecks check(op);
  if (failed(checkGather(check, base, "base", indices, op.getDim())) ||
      failed(check.sameElement(base, "base", source, "source")))
    return failure();
  if (dimsOf(source) == dimsOf(indices))
    return checkReached(check, base, "base", indices, op.getDim());
  return check.error("source is " + spell(source) + " but indices is " + spell(indices) +
                     "; they must have one shape");
}
LogicalResult ScatterOp::verify() {
  return verifyScatter(*this);
}
LogicalResult ScatterAddOp::verify() {
  return verifyScatter(*this);
}
LogicalResult ScatterReduceOp::verify() {
  return verifyScatter(*this);
}

} // namespace weft::ir
