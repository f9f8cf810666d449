// Linear algebra as products and elementwise ops, for backends without kernels of their own. A
// triangular system goes by the inverse, which doubles the size of its blocks: log2(n) products.
// Factorizations are serial: a step a column, so that the program's length grows with the matrix.
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/rules/LinearAlgebra.h"

namespace weft::ir {

using namespace mlir;

// Columns of the largest matrix that is factored so: some ten ops each, so that a program of this
// length compiles in seconds.
static constexpr int64_t kFactoredColumns = 64;

static int64_t columnsOf(Val x) {
  return x.shape().back();
}

static Val sliceOf(Val x, int64_t dim, int64_t begin, int64_t size) {
  SmallVector<int64_t> starts(x.rank(), 0), limits(x.shape()), steps(x.rank(), 1);
  starts[dim] = begin;
  limits[dim] = begin + size;
  return x.make<SliceOp>(x, starts, limits, steps);
}

static Val concat(ArrayRef<Val> parts, int64_t dim) {
  SmallVector<Value> values(parts.begin(), parts.end());
  return parts[0].make<ConcatOp>(values, dim);
}

// The index along the last dim but `back`, of x's dims.
static Val positions(Val x, int64_t back, Type element) {
  return x.make<IotaOp>(tensorOf(dimsOf(x), element), x.rank() - 1 - back);
}
static Val rowIndex(Val x) {
  return positions(x, 1, x.builder().getI32Type());
}
static Val columnIndex(Val x) {
  return positions(x, 0, x.builder().getI32Type());
}

Val triangle(Val x, Triangle part) {
  static constexpr StringRef kDirections[] = {"ge", "gt", "le", "lt"};
  Val inside = compare(kDirections[static_cast<int>(part)], rowIndex(x), columnIndex(x));
  return select(inside, x, zerosOf(x, dimsOf(x)));
}

Val halfDiagonal(Val x) {
  return select(compare("eq", rowIndex(x), columnIndex(x)), 0.5 * x, x);
}

Val swapLast(Val x) {
  SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, x.rank()));
  std::swap(permutation[x.rank() - 1], permutation[x.rank() - 2]);
  return transpose(x, permutation);
}

Val solveTriangular(Val matrix, Val rhs, SolveOptions options) {
  return matrix.make<SolveTriangularOp>(matrix, rhs, options.upper, options.unit,
                                        options.transposed);
}

//===-- Triangular systems --------------------------------------------------------------------===//

// x [.., n, n] -> the blocks of this size on its diagonal, [.., n / size, size, size].
static Val diagonalBlocks(Val x, int64_t size) {
  SmallVector<int64_t> shape(x.shape().drop_back(2));
  int64_t blocks = columnsOf(x) / size, lead = static_cast<int64_t>(shape.size());
  shape.append({blocks, size, blocks, size});
  Val grid = reshape(x, shape);
  Type i32 = x.builder().getI32Type();
  Val same = compare("eq", iota(grid, shape, lead, i32), iota(grid, shape, lead + 2, i32));
  return sum(select(same, grid, grid.constant(0)), {lead + 2});
}

// x [.., n, n], lower triangular, with ones on the diagonal behind it, up to a size of 2^k.
static Val paddedToPower(Val x) {
  int64_t n = columnsOf(x), size = static_cast<int64_t>(llvm::PowerOf2Ceil(n)), rank = x.rank();
  if (size == n)
    return x;
  SmallVector<int64_t> right(x.shape()), below(x.shape());
  right.back() = size - n;
  below.back() = size;
  below[rank - 2] = size - n;
  Val wide = concat({x, x.constant(0, right)}, rank - 1);
  Val tall = concat({wide, x.constant(0, below)}, rank - 2);
  Val row = rowIndex(tall), behind = compare("ge", row, row.integer(n));
  Val diagonal = compare("eq", row, columnIndex(tall));
  Val one = tall.make<AndOp>(behind, diagonal);
  return select(one, tall.constant(1), tall);
}

// The inverse of a lower triangular x [.., n, n], n > 0. Of blocks [[a, 0], [b, c]] it is
// [[a^-1, 0], [-c^-1 b a^-1, c^-1]].
static Val lowerInverse(Val x, bool unit) {
  int64_t n = columnsOf(x);
  x = paddedToPower(x);
  Val inverse = diagonalBlocks(x, 1);
  inverse = unit ? inverse.constant(1) : 1.0 / inverse;
  for (int64_t size = 1; size < columnsOf(x); size *= 2) {
    Val blocks = diagonalBlocks(x, 2 * size);
    int64_t rank = blocks.rank();
    Val corner = sliceOf(sliceOf(blocks, rank - 2, size, size), rank - 1, 0, size);
    SmallVector<int64_t> pairs(blocks.shape().drop_back(2)), one(pairs);
    pairs.append({2, size, size});
    one.append({size, size});
    Val both = reshape(inverse, pairs);
    Val a = reshape(sliceOf(both, rank - 2, 0, 1), one);
    Val c = reshape(sliceOf(both, rank - 2, 1, 1), one);
    Val mixed = -matmul(c, matmul(corner, a));
    Val above = concat({a, a.constant(0)}, rank - 1), below = concat({mixed, c}, rank - 1);
    inverse = concat({above, below}, rank - 2);
  }
  SmallVector<int64_t> whole(x.shape());
  inverse = reshape(inverse, whole);
  return sliceOf(sliceOf(inverse, x.rank() - 2, 0, n), x.rank() - 1, 0, n);
}

// Whether there is a decomposition for operands of the op; an error at the op where there is none.
static LogicalResult wantStatic(Operation *op) {
  for (Type type : op->getOperandTypes())
    if (!cast<RankedTensorType>(type).hasStaticShape())
      return op->emitOpError("has no form for sizes that vary");
  return success();
}
static LogicalResult wantFewColumns(Operation *op) {
  if (failed(wantStatic(op)))
    return failure();
  int64_t columns = shapeOf(op->getOperand(0)).back();
  if (columns > kFactoredColumns)
    return op->emitOpError("of a matrix of ")
           << columns << " columns needs a kernel, which this backend has not; without one there are "
           << "at most " << kFactoredColumns << ". Compute it on the CPU";
  return success();
}

FailureOr<SmallVector<Value>> SolveTriangularOp::decompose(OpBuilder &b) {
  if (failed(wantStatic(*this)))
    return failure();
  Val rhs = widen(Val(b, getLoc(), getRhs())), matrix = widen(rhs.at(getMatrix()));
  if (rhs.type().getNumElements() == 0)
    return SmallVector<Value>{rhs.at(getRhs()).constant(0)};
  Val lower = lowerInverse(triangle(getUpper() ? swapLast(matrix) : matrix, Triangle::Lower),
                           getUnit());
  Val x = matmul(lower, rhs, /*transposeA=*/getUpper() != getTransposed());
  return SmallVector<Value>{narrowTo(x, getRhs())};
}

//===-- Factorizations ------------------------------------------------------------------------===//

// column times row, [.., n, 1] and [.., 1, n].
static Val outerProduct(Val column, Val row, ArrayRef<int64_t> shape) {
  return broadcast(column, shape) * broadcast(row, shape);
}

FailureOr<SmallVector<Value>> CholeskyOp::decompose(OpBuilder &b) {
  if (failed(wantFewColumns(*this)))
    return failure();
  Val rest = widen(Val(b, getLoc(), getInput()));
  int64_t rank = rest.rank(), n = columnsOf(rest);
  if (rest.type().getNumElements() == 0)
    return SmallVector<Value>{rest.at(getInput()).constant(0)};
  SmallVector<int64_t> shape(rest.shape());
  SmallVector<Val> columns;
  for (int64_t j = 0; j < n; ++j) {
    Val column = sliceOf(rest, rank - 1, j, 1), root = sqrt(sliceOf(column, rank - 2, j, 1));
    Val row = rowIndex(column);
    column = select(compare("ge", row, row.integer(j)), column / broadcast(root, column.shape()),
                    column.constant(0));
    columns.push_back(column);
    if (j + 1 < n)
      rest = rest - outerProduct(column, swapLast(column), shape);
  }
  return SmallVector<Value>{narrowTo(concat(columns, rank - 1), getInput())};
}

FailureOr<SmallVector<Value>> LuOp::decompose(OpBuilder &b) {
  if (failed(wantFewColumns(*this)))
    return failure();
  Val rest = widen(Val(b, getLoc(), getInput()));
  int64_t rank = rest.rank(), n = columnsOf(rest);
  SmallVector<int64_t> shape(rest.shape()), rows(rest.shape().drop_back());
  Type i64 = b.getI64Type();
  Val order = iota(rest, rows, rank - 2, i64), permutation = order;
  if (rest.type().getNumElements() == 0)
    return SmallVector<Value>{rest.at(getInput()).constant(0), order};
  auto gathered = [&](Val x, Val indices) {
    SmallVector<int64_t> column(rows);
    column.push_back(1);
    if (x.rank() > indices.rank())
      indices = broadcast(reshape(indices, column), x.shape());
    return x.make<GatherOp>(x, indices, rank - 2);
  };
  for (int64_t j = 0; j + 1 < n; ++j) {
    // Rows j and that of the pivot change places.
    Val column = reshape(sliceOf(rest, rank - 1, j, 1), rows);
    Val size = maximum(column, -column), none = size.constant(-1);
    Val open = select(compare("ge", order, order.integer(j)), size, none);
    Val pivot = rest.make<ArgMaxOp>(open, rank - 2);
    SmallVector<int64_t> single(rows);
    single.back() = 1;
    pivot = broadcast(reshape(pivot, single), rows);
    Val swapped = select(compare("eq", order, pivot), order.integer(j), order);
    swapped = select(compare("eq", order, order.integer(j)), pivot, swapped);
    rest = gathered(rest, swapped);
    permutation = gathered(permutation, swapped);

    Val below = sliceOf(rest, rank - 1, j, 1), row = sliceOf(rest, rank - 2, j, 1);
    Val diagonal = broadcast(sliceOf(row, rank - 1, j, 1), below.shape()), at = rowIndex(below);
    Val factor = select(compare("eq", diagonal, diagonal.constant(0)), below, below / diagonal);
    factor = select(compare("gt", at, at.integer(j)), factor, factor.constant(0));
    Val across = columnIndex(rest), down = rowIndex(rest);
    Val next = select(compare("gt", across, across.integer(j)),
                      rest - outerProduct(factor, row, shape), broadcast(factor, shape));
    Val isLeft = compare("lt", across, across.integer(j)),
        isAbove = compare("le", down, down.integer(j));
    rest = select(rest.make<OrOp>(isLeft, isAbove), rest, next);
  }
  return SmallVector<Value>{narrowTo(rest, getInput()), permutation};
}

} // namespace weft::ir
