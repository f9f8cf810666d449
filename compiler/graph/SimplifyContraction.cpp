// Algebra of matmul and reductions.
#include <limits>

#include "compiler/graph/Simplify.h"
#include "dialects/weft/ir/SizeNames.h"

namespace weft::compiler {

using namespace mlir;

namespace {

// The operand without a transpose that swaps the last two dims and leaves the others.
Value withoutTranspose(Value value) {
  auto transpose = value.getDefiningOp<ir::TransposeOp>();
  if (!transpose)
    return nullptr;
  ArrayRef<int64_t> permutation = transpose.getPermutation();
  int64_t rank = permutation.size();
  if (rank < 2 || permutation[rank - 1] != rank - 2 || permutation[rank - 2] != rank - 1)
    return nullptr;
  for (int64_t i = 0; i < rank - 2; ++i)
    if (permutation[i] != i)
      return nullptr;
  return transpose.getInput();
}

// The same where the transposed values are converted for this product: weights in 8 bits, say, are
// converted as they lie.
Value withoutTranspose(Value value, RewriterBase &rewriter) {
  if (Value input = withoutTranspose(value))
    return input;
  auto cast = value.getDefiningOp<ir::CastOp>();
  Value input = cast && cast->hasOneUse() ? withoutTranspose(cast.getInput()) : nullptr;
  if (!input)
    return nullptr;
  auto type = ir::tensorOf(ir::dimsOf(input), typeOf(value).getElementType());
  return ir::CastOp::create(rewriter, cast.getLoc(), type, input);
}

// A product with a vector is no work for a library, which packs the matrix first: its time is that
// of reading the matrix once. As a sum of products of elements it is one kernel of ours with what
// stands around it. float32 and wider only: the terms of narrower types would round.
LogicalResult simplifyVectorProduct(ir::MatmulOp op, RewriterBase &rewriter) {
  auto lhsType = typeOf(op.getLhs()), rhsType = typeOf(op.getRhs()), type = typeOf(op);
  Type element = type.getElementType();
  if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32)
    return failure();
  int64_t rank = type.getRank();
  ir::Dims dims = ir::dimsOf(type), lhsDims = ir::dimsOf(lhsType), rhsDims = ir::dimsOf(rhsType);
  ir::Dim depth = lhsDims[lhsDims.size() - (op.getTransposeLhs() ? 2 : 1)];
  bool isRow = dims[rank - 2].isOne(), isColumn = dims[rank - 1].isOne();
  Location loc = op.getLoc();
  auto asMatrix = [&](Value value, ir::Dims shape, ir::Dim rows, ir::Dim columns) -> Value {
    shape[shape.size() - 2] = rows;
    shape[shape.size() - 1] = columns;
    auto to = ir::tensorOf(shape, element);
    return to == value.getType() ? value
                                 : ir::ReshapeOp::create(rewriter, loc, to, value).getResult();
  };
  auto spread = [&](Value value, RankedTensorType to) -> Value {
    return to == value.getType() ? value
                                 : ir::BroadcastOp::create(rewriter, loc, to, value).getResult();
  };
  if (depth.isOne()) {
    Value left = spread(asMatrix(op.getLhs(), lhsDims, dims[rank - 2], 1), type);
    Value right = spread(asMatrix(op.getRhs(), rhsDims, 1, dims[rank - 1]), type);
    Value product = ir::MulOp::create(rewriter, loc, left, right);
    // A sum starts at 0, and 0 + -0 is 0.
    if (isa<FloatType>(element))
      product =
          ir::AddOp::create(rewriter, loc, product,
                            ir::splat(rewriter, loc, type, rewriter.getFloatAttr(element, 0)));
    rewriter.replaceOp(op, product);
    return success();
  }
  if (!isRow && !isColumn)
    return failure();
  // The matrix as it lies, [.., rows, depth] or [.., depth, rows]; of two vectors, the left one is
  // a matrix of one row.
  bool matrixIsLeft = isColumn;
  Value matrix = matrixIsLeft ? op.getLhs() : op.getRhs(),
        vector = matrixIsLeft ? op.getRhs() : op.getLhs();
  ir::Dims matrixDims = matrixIsLeft ? lhsDims : rhsDims,
           vectorDims = matrixIsLeft ? rhsDims : lhsDims;
  ir::Dim rows = dims[matrixIsLeft ? rank - 2 : rank - 1];
  bool depthIsLast = rows.isOne() || (matrixIsLeft ? !op.getTransposeLhs()
                                                   : static_cast<bool>(op.getTransposeRhs()));
  // A matrix that serves many vectors is read once by a product with all of them, which is the
  // library's.
  auto batchOf = [](ArrayRef<ir::Dim> of) {
    of = of.drop_back(2);
    while (!of.empty() && of.front().isOne())
      of = of.drop_front();
    return of;
  };
  if (batchOf(matrixDims) != batchOf(dims))
    return failure();
  ir::Dims full = dims;
  full[rank - 2] = depthIsLast ? rows : depth;
  full[rank - 1] = depthIsLast ? depth : rows;
  auto fullType = ir::tensorOf(full, element);
  Value terms = ir::MulOp::create(
      rewriter, loc, spread(asMatrix(matrix, matrixDims, full[rank - 2], full[rank - 1]), fullType),
      spread(asMatrix(vector, vectorDims, depthIsLast ? ir::Dim(1) : depth,
                      depthIsLast ? depth : ir::Dim(1)),
             fullType));
  Value sum = ir::ReduceSumOp::create(rewriter, loc, terms,
                                      ArrayRef<int64_t>{depthIsLast ? rank - 1 : rank - 2});
  rewriter.replaceOpWithNewOp<ir::ReshapeOp>(op, type, sum);
  return success();
}

} // namespace

LogicalResult simplifyContraction(Operation *operation, RewriterBase &rewriter) {
  auto op = dyn_cast<ir::MatmulOp>(operation);
  if (!op)
    return failure();
  Value lhs = op.getLhs(), rhs = op.getRhs();
  auto lhsType = typeOf(lhs), rhsType = typeOf(rhs);
  bool transposeLhs = op.getTransposeLhs(), transposeRhs = op.getTransposeRhs();
  if (Value input = withoutTranspose(lhs, rewriter)) {
    rewriter.replaceOpWithNewOp<ir::MatmulOp>(op, input, rhs, !transposeLhs, transposeRhs);
    return success();
  }
  if (Value input = withoutTranspose(rhs, rewriter)) {
    rewriter.replaceOpWithNewOp<ir::MatmulOp>(op, lhs, input, transposeLhs, !transposeRhs);
    return success();
  }
  // One right side for the whole batch (a weight): the batch becomes rows of one product. The
  // reshapes are aliases.
  if (lhsType.getRank() > 2 && rhsType.getRank() == 2 && !transposeLhs) {
    ir::Dims dims = ir::dimsOf(lhsType);
    ir::Dim depth = dims.pop_back_val();
    auto flat = ir::tensorOf({ir::productDim(dims), depth}, lhsType.getElementType());
    Value flatLhs = ir::ReshapeOp::create(rewriter, op.getLoc(), flat, lhs);
    Value product = ir::MatmulOp::create(rewriter, op.getLoc(), flatLhs, rhs, false, transposeRhs);
    rewriter.replaceOpWithNewOp<ir::ReshapeOp>(op, op.getType(), product);
    return success();
  }
  // Leading dims of size 1 on the right side alone say the same.
  if (lhsType.getRank() > 2 && rhsType.getRank() > 2 &&
      llvm::all_of(rhsType.getShape().drop_back(2), [](int64_t extent) { return extent == 1; }) &&
      typeOf(op).getRank() == lhsType.getRank()) {
    auto flat =
        ir::tensorOf(ArrayRef<ir::Dim>(ir::dimsOf(rhsType)).take_back(2), rhsType.getElementType());
    Value flatRhs = ir::ReshapeOp::create(rewriter, op.getLoc(), flat, rhs);
    rewriter.replaceOpWithNewOp<ir::MatmulOp>(op, lhs, flatRhs, transposeLhs, transposeRhs);
    return success();
  }
  return simplifyVectorProduct(op, rewriter);
}

// The sum over i of (i == target ? x[i] : 0) is one element of x, or 0. Where x is in memory it is
// read alone: a loss of values that were computed before. Beside what computes x it stays a sum,
// which fuses. (A sum starts at 0, and 0 + -0 is 0.)
static LogicalResult sumOfOne(ir::ReduceSumOp op, RewriterBase &rewriter) {
  auto choice = op.getInput().getDefiningOp<ir::SelectOp>();
  if (!choice || op.getDims().size() != 1 || !splatOf(choice.getOnFalse()).is(0))
    return failure();
  auto equal = choice.getCondition().getDefiningOp<ir::CompareOp>();
  auto widened = choice.getOnTrue().getDefiningOp<ir::CastOp>();
  Value x = widened ? widened.getInput() : choice.getOnTrue();
  if (!equal || equal.getDirection() != ir::Direction::eq || !isa<BlockArgument>(x) ||
      ir::hasNamedDims(typeOf(x)))
    return failure();
  auto places = equal.getLhs().getDefiningOp<ir::IotaOp>();
  auto targets = equal.getRhs().getDefiningOp<ir::BroadcastOp>();
  int64_t dim = op.getDims()[0], extent = ir::shapeOf(x)[dim];
  if (!places || !targets || static_cast<int64_t>(places.getDim()) != dim || extent == 0 ||
      !isa<FloatType>(typeOf(op).getElementType()))
    return failure();
  Type index = typeOf(targets).getElementType();
  if (!index.isInteger(32) && !index.isInteger(64))
    return failure();
  SmallVector<int64_t> shape(ir::shapeOf(targets.getInput()));
  shape.insert(shape.begin(), typeOf(x).getRank() - static_cast<int64_t>(shape.size()), 1);
  for (auto [d, size] : llvm::enumerate(ir::shapeOf(x)))
    if (shape[d] != (static_cast<int64_t>(d) == dim ? 1 : size))
      return failure();
  ir::Val target = ir::reshape(ir::Val(rewriter, op.getLoc(), targets.getInput()), shape),
          first = target.constant(0), last = target.constant(static_cast<double>(extent - 1));
  // What is no place finds nothing.
  ir::Val place = ir::select(ir::compare("lt", target, first), first,
                             ir::select(ir::compare("gt", target, last), last, target));
  ir::Val element = target.at(ir::GatherOp::create(rewriter, op.getLoc(), x, place, dim));
  element = ir::cast(element, typeOf(op).getElementType());
  ir::Val zero = element.constant(0),
          sum = ir::select(ir::compare("eq", target, place), element + zero, zero);
  rewriter.replaceOp(op, ir::reshape(sum, ir::shapeOf(op)).value());
  return success();
}

// Rows that a broadcast repeats are folded once: reduce(broadcast(x)) is broadcast(reduce(x)). Only
// of the last dims, whose order does not depend on what stands before them, and of several rows.
static LogicalResult foldOnce(Operation *op, ArrayRef<int64_t> dims, ir::BroadcastOp broadcast,
                              RewriterBase &rewriter) {
  auto type = typeOf(broadcast), from = typeOf(broadcast.getInput());
  int64_t count = dims.size(), offset = type.getRank() - from.getRank(),
          rows = from.getRank() - count;
  ir::Dims typeDims = ir::dimsOf(type), fromDims = ir::dimsOf(from);
  if (count == 0 || dims.front() != type.getRank() - count || rows <= 0 ||
      ArrayRef(typeDims).take_back(count) != ArrayRef(fromDims).take_back(count))
    return failure();
  if (llvm::all_of(from.getShape().take_front(rows), [](int64_t size) { return size == 1; }))
    return failure();
  SmallVector<int64_t> newDims;
  for (int64_t dim : dims)
    newDims.push_back(dim - offset);
  NamedAttrList attributes(op->getAttrDictionary());
  attributes.set("dims", rewriter.getDenseI64ArrayAttr(newDims));
  auto result = typeOf(op->getResult(0));
  fromDims.truncate(rows);
  Operation *folded =
      rewriter.create(op->getLoc(), op->getName().getIdentifier(), broadcast.getInput(),
                      {ir::tensorOf(fromDims, result.getElementType())}, attributes);
  rewriter.replaceOpWithNewOp<ir::BroadcastOp>(op, result, folded->getResult(0));
  return success();
}

// What the rules know of reductions is true of Weft's own: a sum of squares of one element is not
// that element.
LogicalResult simplifyReduction(Operation *op, RewriterBase &rewriter) {
  if (!ir::isOwn(op))
    return failure();
  Value input = op->getOperand(0);
  auto type = typeOf(input);
  auto dims = op->getAttrOfType<DenseI64ArrayAttr>("dims").asArrayRef();
  Location loc = op->getLoc();
  Type element = type.getElementType();
  // No terms at all: the number that the reduction starts from, and 0 / 0 for a mean.
  if (llvm::is_contained(type.getShape(), 0) && !isa<ir::ReduceMaxOp, ir::ReduceMinOp>(op)) {
    double start = isa<ir::ReduceProdOp>(op)   ? 1
                   : isa<ir::ReduceMeanOp>(op) ? std::numeric_limits<double>::quiet_NaN()
                                               : 0;
    TypedAttr value = rewriter.getZeroAttr(element);
    if (isa<FloatType>(element))
      value = rewriter.getFloatAttr(element, start);
    else if (start == 1)
      value = rewriter.getIntegerAttr(element, 1);
    rewriter.replaceOp(op, ir::splat(rewriter, loc, typeOf(op->getResult(0)), value));
    return success();
  }
  if (auto sum = dyn_cast<ir::ReduceSumOp>(op); sum && succeeded(sumOfOne(sum, rewriter)))
    return success();
  bool rounds = isa<FloatType>(element) && !isa<ir::ReduceMaxOp, ir::ReduceMinOp>(op);
  // Over dims of size 1 only: nothing to add up. But a sum starts at 0, and 0 + -0 is 0.
  if (llvm::all_of(dims, [&](int64_t dim) { return type.getShape()[dim] == 1; })) {
    Value value = input;
    if (value.getType() != op->getResult(0).getType())
      value = ir::ReshapeOp::create(rewriter, loc, op->getResult(0).getType(), value);
    if (rounds && !isa<ir::ReduceProdOp>(op))
      value = ir::AddOp::create(
          rewriter, loc, value,
          ir::splat(rewriter, loc, typeOf(value), rewriter.getFloatAttr(element, 0)));
    rewriter.replaceOp(op, value);
    return success();
  }
  // Over dims along which the input repeats: n equal terms are n times one (for a sum of integers),
  // or one of them (for a maximum). A sum of floats rounds after each term, which a product does
  // not.
  auto broadcast = input.getDefiningOp<ir::BroadcastOp>();
  if (broadcast && succeeded(foldOnce(op, dims, broadcast, rewriter)))
    return success();
  // The product of n equal factors would be a power.
  if (!broadcast || rounds || isa<ir::ReduceProdOp>(op))
    return failure();
  auto from = typeOf(broadcast.getInput());
  int64_t offset = type.getRank() - from.getRank(), count = 1;
  SmallVector<int64_t> rest;
  ir::Dims typeDims = ir::dimsOf(type), fromDims = ir::dimsOf(from);
  for (int64_t dim : dims) {
    bool repeats =
        dim < offset || (from.getShape()[dim - offset] == 1 && type.getShape()[dim] != 1);
    // How many equal terms there are is known at run time only.
    if (repeats && !typeDims[dim].isStatic())
      return failure();
    if (repeats)
      count *= type.getShape()[dim];
    else
      rest.push_back(dim);
  }
  if (count <= 1)
    return failure();
  // The input, still broadcast along the dims that stay, without those that went: reduced over the
  // rest.
  ir::Dims keptShape, smallShape;
  SmallVector<int64_t> newDims;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    bool reduced = llvm::is_contained(dims, dim);
    if (reduced && !llvm::is_contained(rest, dim))
      continue;
    if (reduced)
      newDims.push_back(keptShape.size());
    keptShape.push_back(typeDims[dim]);
    smallShape.push_back(dim < offset ? ir::Dim(1) : fromDims[dim - offset]);
  }
  Value value =
      ir::ReshapeOp::create(rewriter, loc, ir::tensorOf(smallShape, element), broadcast.getInput());
  value = ir::BroadcastOp::create(rewriter, loc, ir::tensorOf(keptShape, element), value);
  if (!newDims.empty())
    value = isa<ir::ReduceSumOp>(op)
                ? ir::ReduceSumOp::create(rewriter, loc, value, newDims).getResult()
            : isa<ir::ReduceMaxOp>(op)
                ? ir::ReduceMaxOp::create(rewriter, loc, value, newDims).getResult()
                : ir::ReduceMinOp::create(rewriter, loc, value, newDims).getResult();
  if (isa<ir::ReduceSumOp>(op)) {
    auto factor =
        IntegerAttr::get(element, APInt(64, count).zextOrTrunc(element.getIntOrFloatBitWidth()));
    value =
        ir::MulOp::create(rewriter, loc, value, ir::splat(rewriter, loc, typeOf(value), factor));
  }
  rewriter.replaceOp(op, value);
  return success();
}

} // namespace weft::compiler
