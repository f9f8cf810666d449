// Algebra of ops that only move elements.
#include "compiler/graph/Simplify.h"
#include "dialects/weft/ir/SizeNames.h"

namespace weft::compiler {

using namespace mlir;

namespace {

// A transpose that leaves the order of all dims larger than 1 alone is a reshape: an alias instead
// of a copy.
bool keepsOrder(ArrayRef<int64_t> permutation, ArrayRef<int64_t> shape) {
  int64_t last = -1;
  for (int64_t from : permutation) {
    if (shape[from] == 1)
      continue;
    if (from < last)
      return false;
    last = from;
  }
  return true;
}

LogicalResult simplifyTranspose(ir::TransposeOp op, RewriterBase &rewriter) {
  ArrayRef<int64_t> permutation = op.getPermutation();
  if (keepsOrder(permutation, ir::shapeOf(op.getInput()))) {
    rewriter.replaceOpWithNewOp<ir::ReshapeOp>(op, op.getType(), op.getInput());
    return success();
  }
  // (a b)^T is b^T a^T, read through flags.
  auto matmul = op.getInput().getDefiningOp<ir::MatmulOp>();
  int64_t rank = permutation.size();
  if (matmul && matmul->hasOneUse() && rank == 2 && typeOf(matmul.getLhs()).getRank() == 2 &&
      typeOf(matmul.getRhs()).getRank() == 2) {
    rewriter.replaceOpWithNewOp<ir::MatmulOp>(op, matmul.getRhs(), matmul.getLhs(),
                                              !matmul.getTransposeRhs(), !matmul.getTransposeLhs());
    return success();
  }
  return failure();
}

LogicalResult simplifyBroadcast(ir::BroadcastOp op, RewriterBase &rewriter) {
  Value input = op.getInput();
  if (typeOf(input).getNumElements() == typeOf(op).getNumElements()) {
    rewriter.replaceOpWithNewOp<ir::ReshapeOp>(op, op.getType(), input);
    return success();
  }
  // Dims align at the end: a reshape that only adds or removes leading ones changes nothing.
  if (auto reshape = input.getDefiningOp<ir::ReshapeOp>()) {
    auto withoutLeadingOnes = [](ArrayRef<int64_t> shape) {
      return shape.drop_while([](int64_t extent) { return extent == 1; });
    };
    auto from = typeOf(reshape.getInput());
    if (withoutLeadingOnes(from.getShape()) == withoutLeadingOnes(ir::shapeOf(input)) &&
        from.getRank() <= typeOf(op).getRank()) {
      rewriter.replaceOpWithNewOp<ir::BroadcastOp>(op, op.getType(), reshape.getInput());
      return success();
    }
  }
  return failure();
}

int64_t dimOf(ir::ConcatOp concat) {
  return concat.getDim() < 0 ? concat.getDim() + typeOf(concat).getRank() : concat.getDim();
}

LogicalResult simplifySlice(ir::SliceOp op, RewriterBase &rewriter, ConcatBegins &begins) {
  auto from = typeOf(op.getInput());
  ArrayRef<int64_t> starts = op.getStarts(), limits = op.getLimits(), steps = op.getSteps();
  // The whole of a symbolic dim has no limit to compute with.
  if (ir::hasNamedDims(from))
    return failure();
  if (auto inner = op.getInput().getDefiningOp<ir::SliceOp>()) {
    SmallVector<int64_t> newStarts, newLimits, newSteps;
    for (int64_t i = 0, rank = from.getRank(); i < rank; ++i) {
      int64_t extent = ir::shapeOf(op)[i];
      // Steps within a dim do not overflow; those that nobody takes may.
      int64_t step = extent > 1 ? inner.getSteps()[i] * steps[i] : 1;
      newSteps.push_back(step);
      // Where nothing is taken, the inner slice's next element may lie outside of its input.
      newStarts.push_back(extent == 0 ? 0 : inner.getStarts()[i] + starts[i] * inner.getSteps()[i]);
      newLimits.push_back(extent == 0 ? 0
                                      : newStarts[i] + (extent - 1) * step + (step > 0 ? 1 : -1));
    }
    rewriter.replaceOpWithNewOp<ir::SliceOp>(op, inner.getInput(), newStarts, newLimits, newSteps);
    return success();
  }
  // A part of a transpose is the transpose of a part: tiles of parts are turned (codegen's
  // RowTiles), and products take transposes in.
  if (auto transpose = op.getInput().getDefiningOp<ir::TransposeOp>();
      transpose && transpose->hasOneUse()) {
    ArrayRef<int64_t> order = transpose.getPermutation();
    SmallVector<int64_t> newStarts(starts), newLimits(limits), newSteps(steps);
    for (auto [i, d] : llvm::enumerate(order)) {
      newStarts[d] = starts[i];
      newLimits[d] = limits[i];
      newSteps[d] = steps[i];
    }
    Value part = ir::SliceOp::create(rewriter, op.getLoc(), transpose.getInput(), newStarts,
                                     newLimits, newSteps);
    rewriter.replaceOpWithNewOp<ir::TransposeOp>(op, part, order);
    return success();
  }
  if (!llvm::all_of(steps, [](int64_t step) { return step > 0; }))
    return failure();
  // A slice of repeats repeats a slice: the gradient of a sum of a stack, taken apart again.
  if (auto broadcast = op.getInput().getDefiningOp<ir::BroadcastOp>()) {
    auto input = typeOf(broadcast.getInput());
    if (ir::hasNamedDims(input))
      return failure();
    int64_t added = from.getRank() - input.getRank();
    SmallVector<int64_t> newStarts, newLimits, newSteps;
    for (int64_t i = 0; i < input.getRank(); ++i) {
      bool repeats = input.getDimSize(i) != from.getDimSize(added + i);
      newStarts.push_back(repeats ? 0 : starts[added + i]);
      newLimits.push_back(repeats ? input.getDimSize(i) : limits[added + i]);
      newSteps.push_back(repeats ? 1 : steps[added + i]);
    }
    Value part = broadcast.getInput();
    if (input.getRank() > 0)
      part = ir::SliceOp::create(rewriter, op.getLoc(), part, newStarts, newLimits, newSteps);
    rewriter.replaceOpWithNewOp<ir::BroadcastOp>(op, op.getType(), part);
    return success();
  }
  // A slice that lies in one input of a concat is a slice of that input.
  if (auto concat = op.getInput().getDefiningOp<ir::ConcatOp>()) {
    int64_t dim = dimOf(concat), extent = ir::shapeOf(op)[dim];
    if (extent == 0)
      return failure();
    ArrayRef<int64_t> places = begins.of(concat);
    // Of inputs that begin there the last one: the others are empty.
    size_t input = llvm::upper_bound(places, starts[dim]) - places.begin() - 1;
    int64_t last = starts[dim] + (extent - 1) * steps[dim];
    if (last < places[input + 1]) {
      SmallVector<int64_t> newStarts(starts), newLimits(limits);
      newStarts[dim] -= places[input];
      newLimits[dim] = last + 1 - places[input];
      rewriter.replaceOpWithNewOp<ir::SliceOp>(op, concat.getInputs()[input], newStarts, newLimits,
                                               steps);
      return success();
    }
  }
  return failure();
}

} // namespace

ArrayRef<int64_t> ConcatBegins::of(ir::ConcatOp concat) {
  auto [it, isNew] = begins_.try_emplace(concat);
  if (isNew) {
    it->second.push_back(0);
    for (Value input : concat.getInputs())
      it->second.push_back(it->second.back() + ir::shapeOf(input)[dimOf(concat)]);
    work_ += int64_t(concat.getInputs().size());
  }
  return it->second;
}

LogicalResult simplifyMovement(Operation *op, RewriterBase &rewriter, ConcatBegins &begins) {
  if (auto transpose = dyn_cast<ir::TransposeOp>(op))
    return simplifyTranspose(transpose, rewriter);
  if (auto broadcast = dyn_cast<ir::BroadcastOp>(op))
    return simplifyBroadcast(broadcast, rewriter);
  if (auto slice = dyn_cast<ir::SliceOp>(op))
    return simplifySlice(slice, rewriter, begins);
  return failure();
}

} // namespace weft::compiler
