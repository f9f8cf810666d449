// Algebra of writes to parts. m[i][j] = x takes a row out, changes it and puts it back. (A read of
// what was written stays a read of the whole: to read the written value instead would keep it, and
// a factorization that updates a matrix in place would hold all of its steps.)
#include "compiler/graph/Simplify.h"
#include "dialects/weft/ir/SizeNames.h"

namespace weft::compiler {

using namespace mlir;

namespace {

bool isDense(ArrayRef<int64_t> steps) {
  return llvm::all_of(steps, [](int64_t step) { return step == 1; });
}

Value withoutReshape(Value value) {
  auto reshape = value.getDefiningOp<ir::ReshapeOp>();
  return reshape ? reshape.getInput() : value;
}

// By which dim of `from` each dim of `to` is meant, where a reshape only adds and drops dims of one
// element; -1 for a dim that is added. Nothing for other reshapes.
std::optional<SmallVector<int64_t>> dimsOf(RankedTensorType to, RankedTensorType from) {
  SmallVector<int64_t> dims(to.getRank(), -1);
  int64_t dim = 0;
  auto skip = [&] {
    while (dim < from.getRank() && from.getDimSize(dim) == 1)
      ++dim;
  };
  for (int64_t i = 0; i < to.getRank(); ++i) {
    if (to.getDimSize(i) == 1)
      continue;
    skip();
    if (dim == from.getRank() || from.getDimSize(dim) != to.getDimSize(i))
      return std::nullopt;
    dims[i] = dim++;
  }
  skip();
  return dim == from.getRank() ? std::optional(dims) : std::nullopt;
}

// Whether `part` is what `write` overwrites: a slice of its base there, or both of one constant.
bool isOverwritten(Value part, ir::InsertSliceOp write) {
  if (auto slice = part.getDefiningOp<ir::SliceOp>())
    return slice.getInput() == write.getBase() && slice.getStarts() == write.getStarts() &&
           isDense(slice.getSteps()) && slice.getType() == write.getUpdate().getType();
  Splat inner = splatOf(part), outer = splatOf(write.getBase());
  return inner && outer && inner.value == outer.value;
}

// A write of everything, forwards or backwards along each dim (the gradient of a flip), reads the
// update alone.
LogicalResult simplifyWhole(ir::InsertSliceOp op, RewriterBase &rewriter) {
  auto type = typeOf(op);
  if (op.getUpdate().getType() != type || ir::hasNamedDims(type))
    return failure();
  SmallVector<int64_t> starts, limits, steps;
  for (int64_t d = 0; d < type.getRank(); ++d) {
    bool backwards = type.getDimSize(d) > 1 && op.getSteps()[d] < 0;
    starts.push_back(backwards ? type.getDimSize(d) - 1 : 0);
    limits.push_back(backwards ? -1 : type.getDimSize(d));
    steps.push_back(backwards ? -1 : 1);
  }
  rewriter.replaceOpWithNewOp<ir::SliceOp>(op, op.getUpdate(), starts, limits, steps);
  return success();
}

// Puts back what it took out, with a part of it changed: only that part is put.
LogicalResult simplifyInsert(ir::InsertSliceOp op, RewriterBase &rewriter) {
  auto inner = withoutReshape(op.getUpdate()).getDefiningOp<ir::InsertSliceOp>();
  if (!inner || !isDense(op.getSteps()) || !isDense(inner.getSteps()) ||
      !isOverwritten(withoutReshape(inner.getBase()), op))
    return failure();
  auto outerType = typeOf(op.getUpdate()), innerType = typeOf(inner);
  auto part = typeOf(inner.getUpdate());
  if (ir::hasNamedDims(typeOf(op)) || ir::hasNamedDims(innerType) || ir::hasNamedDims(part))
    return failure();
  std::optional<SmallVector<int64_t>> dims = dimsOf(outerType, innerType);
  if (!dims)
    return failure();
  SmallVector<int64_t> starts(op.getStarts()), shape(outerType.getRank(), 1);
  for (auto [i, dim] : llvm::enumerate(*dims))
    if (dim >= 0) {
      starts[i] += inner.getStarts()[dim];
      shape[i] = part.getDimSize(dim);
    }
  auto type = RankedTensorType::get(shape, part.getElementType());
  if (type.getNumElements() != part.getNumElements())
    return failure(); // nothing is written along a dim of one element
  Value update = inner.getUpdate();
  if (update.getType() != type)
    update = ir::ReshapeOp::create(rewriter, op.getLoc(), type, update);
  rewriter.replaceOpWithNewOp<ir::InsertSliceOp>(op, op.getType(), op.getBase(), update, starts,
                                                 op.getSteps());
  return success();
}

} // namespace

LogicalResult simplifyInsertion(Operation *op, RewriterBase &rewriter) {
  if (auto insert = dyn_cast<ir::InsertSliceOp>(op))
    return success(succeeded(simplifyWhole(insert, rewriter)) ||
                   succeeded(simplifyInsert(insert, rewriter)));
  return failure();
}

} // namespace weft::compiler
