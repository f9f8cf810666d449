// weft.arg_sort by counting, for backends that have no sort of their own: the place of an element
// is the number of those that come before it. Comparing and adding up is one kernel, in which no
// [n, n] stands in memory.
#include <limits>

#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/reference/HostTensor.h"

namespace weft::ir {

using namespace mlir;

// A few elements out of rows longer than this are looked for in blocks of this size: of each the
// best, and the best of these. Some hundred comparisons an element; with shorter blocks the number
// of rounds grows.
static constexpr int64_t kBlock = 128;

static Val iotaOf(Val like, ArrayRef<Dim> dims, int64_t dim, Type element) {
  return like.make<IotaOp>(tensorOf(dims, element), dim);
}

// x with a dim of size 1 at `dim`, repeated along it to `size`.
static Val spread(Val x, int64_t dim, Dim size) {
  Dims dims = dimsOf(x);
  dims.insert(dims.begin() + dim, Dim(1));
  Val one = reshapeTo(x, dims);
  dims[dim] = size;
  return broadcastTo(one, dims);
}

static Val all(Val a, Val b) {
  return a.make<AndOp>(a, b);
}
static Val any(Val a, Val b) {
  return a.make<OrOp>(a, b);
}

// x [.., n] -> for each element how many come before it, int64: 0 to n - 1, each once. Of equal
// elements the one with the smaller tie.
static Val ranks(Val x, bool descending) {
  Dims dims = dimsOf(x);
  int64_t last = x.rank() - 1;
  Dim n = dims[last];
  OpBuilder &b = x.builder();
  // Numbers of 32 bits, as most elements are, so that a vector has as many of each; whole ones,
  // exact up to 2^24, half of which are NaN's.
  bool narrow = n.size >= 0 && n.size <= (int64_t(1) << 23);
  Type counting = narrow ? b.getF32Type() : b.getF64Type();
  Val key = x, tie = iotaOf(x, dims, last, counting);
  if (isa<FloatType>(x.type().getElementType())) {
    // NaN beside infinity, and then behind it, by ties that no number has.
    Val nan = compare("ne", x, x);
    double beyond = narrow ? 0x1p23 : 0x1p52;
    key = select(nan, x.constant(std::numeric_limits<double>::infinity()), x);
    tie = select(nan, tie + (descending ? -beyond : beyond), tie);
  }
  Val self = spread(key, last + 1, n), other = spread(key, last, n);
  Val earlier = compare("lt", spread(tie, last, n), spread(tie, last + 1, n));
  Val before =
      any(compare(descending ? "gt" : "lt", other, self), all(compare("eq", other, self), earlier));
  return cast(sum(cast(before, counting), {last + 1}), b.getI64Type());
}

// x [.., n] -> where the elements of the first `count` places stand; all where there is no count.
static Val order(Val x, bool descending, std::optional<int64_t> count) {
  Dims dims = dimsOf(x);
  OpBuilder &b = x.builder();
  int64_t last = x.rank() - 1;
  Val rank = ranks(x, descending), index = iotaOf(x, dims, last, b.getI64Type());
  Val places = x.make<ScatterAddOp>(rank.constant(0), rank, index, last);
  if (!count || dims[last] == Dim(*count))
    return places;
  SmallVector<int64_t> starts(dims.size(), 0), steps(dims.size(), 1), limits;
  for (const Dim &dim : dims)
    limits.push_back(dim.isStatic() ? dim.size : ShapedType::kDynamic);
  limits[last] = *count;
  return x.make<SliceOp>(places, starts, limits, steps);
}

// A rank-0 constant that no element comes after, so that it may stand behind all of them.
static Val lastOfAll(Val x, bool descending) {
  HostTensor host(dtypeOf(x.type().getElementType()), {});
  if (is_floating(host.dtype)) {
    host.set(0, descending ? -std::numeric_limits<double>::infinity()
                           : std::numeric_limits<double>::quiet_NaN());
  } else if (host.dtype == DType::kUInt8) {
    host.setInt(0, descending ? 0 : 255);
  } else {
    int64_t high = static_cast<int64_t>(~uint64_t(0) >> (65 - 8 * byte_size(host.dtype)));
    host.setInt(0, descending ? -high - 1 : high);
  }
  return x.make<ConstantOp>(host.toAttribute(x.builder().getContext()));
}

static Val gatherLast(Val x, Val indices) {
  return x.make<GatherOp>(x, indices, x.rank() - 1);
}

// x [.., n] -> where its `count` best stand, in order.
static Val best(Val x, int64_t count, bool descending) {
  OpBuilder &b = x.builder();
  // One entry a round: where the candidates that are left stood before it.
  SmallVector<Val> rounds;
  for (Dim n = dimsOf(x).back(); n.isStatic() && n.size > kBlock && 2 * count <= kBlock;
       n = dimsOf(x).back()) {
    int64_t blocks = (n.size + kBlock - 1) / kBlock, missing = blocks * kBlock - n.size;
    Dims dims = dimsOf(x);
    if (missing) {
      dims.back() = missing;
      Val filler = broadcastTo(lastOfAll(x, descending), dims);
      x = x.make<ConcatOp>(ValueRange{x, filler}, x.rank() - 1);
    }
    dims.back() = blocks;
    dims.push_back(kBlock);
    Val inBlocks = reshapeTo(x, dims), found = order(inBlocks, descending, count);
    Dims kept = dimsOf(found), flat(kept);
    flat.pop_back();
    flat.back() = blocks * count;
    x = reshapeTo(gatherLast(inBlocks, found), flat);
    rounds.push_back(reshapeTo(
        found + iotaOf(found, kept, kept.size() - 2, b.getI64Type()) * double(kBlock), flat));
  }
  Val places = order(x, descending, count);
  for (Val candidates : llvm::reverse(rounds))
    places = gatherLast(candidates, places);
  return places;
}

FailureOr<SmallVector<Value>> ArgSortOp::decompose(OpBuilder &b) {
  Val x(b, getLoc(), getInput());
  // Integers compare as they are; bool as a number that every backend has.
  if (x.type().getElementType().isInteger(1))
    x = cast(x, b.getI32Type());
  SmallVector<int64_t> swap = llvm::to_vector(llvm::seq<int64_t>(0, x.rank()));
  std::swap(swap[getDim()], swap.back());
  bool moved = static_cast<int64_t>(getDim()) != x.rank() - 1;
  if (moved)
    x = transpose(x, swap);
  Val result;
  if (getType().hasStaticShape() && getType().getNumElements() == 0) {
    Dims dims = dimsOf(getType());
    if (moved)
      std::swap(dims[getDim()], dims.back());
    result = iotaOf(x, dims, 0, b.getI64Type());
  } else {
    std::optional<int64_t> count = getCount();
    result = count ? best(x, *count, getDescending()) : order(x, getDescending(), std::nullopt);
  }
  return SmallVector<Value>{moved ? transpose(result, swap) : result};
}

} // namespace weft::ir
