// Derivative rules of linear algebra: of Cholesky's factorization as in Murray 2016, of triangular
// systems and of LU by differentiating L U = P A. Each is made of products and triangular systems,
// so that they have derivatives of any order.
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/rules/LinearAlgebra.h"

namespace weft::ir {

using namespace mlir;

static bool isSet(BoolAttr attribute) {
  return attribute && attribute.getValue();
}

// With Phi(m): m's lower triangle, its diagonal halved, and P = L^-T Phi(L^T dL) L^-1, of which
// dA is symmetric part and antisymmetric rest: of the elements of the lower triangle, which stand
// for those of both, it is P + P^T below the diagonal and P on it.
LogicalResult CholeskyOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  Val l = ctx.result(0), g = triangle(ctx.g(), Triangle::Lower);
  Val phi = halfDiagonal(triangle(matmul(l, g, /*transposeA=*/true), Triangle::Lower));
  Val left = solveTriangular(l, phi, {.transposed = true});
  Val p = solveTriangular(l, swapLast(left), {.transposed = true});
  ctx.grad(0, halfDiagonal(triangle(p + swapLast(p), Triangle::Lower)));
  return success();
}

LogicalResult SolveTriangularOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  const auto &p = ctx.properties<SolveTriangularOp>();
  SolveOptions options{isSet(p.upper), isSet(p.unit), isSet(p.transposed)}, reversed = options;
  reversed.transposed = !options.transposed;
  Val x = ctx.result(0), g = solveTriangular(ctx.operand(0), ctx.g(), reversed);
  ctx.grad(1, g);
  if (!ctx.needs(0))
    return success();
  Val outer = options.transposed ? matmul(x, g, false, true) : matmul(g, x, false, true);
  Triangle part = options.upper ? (options.unit ? Triangle::StrictlyUpper : Triangle::Upper)
                                : (options.unit ? Triangle::StrictlyLower : Triangle::Lower);
  ctx.grad(0, -triangle(outer, part));
  return success();
}

// dA = P^T L^-T (the strictly lower part of L^T dL + the upper part of dU U^T) U^-T.
LogicalResult LuOp::differentiate(GradContext &ctx) {
  ctx.roundOnce();
  Val factors = ctx.result(0), g = ctx.g(), permutation = ctx.result(1);
  int64_t rank = factors.rank();
  Val l = triangle(factors, Triangle::StrictlyLower), u = triangle(factors, Triangle::Upper);
  // The diagonal of L is 1, and that of L^T dL is not asked for.
  Val dl = triangle(g, Triangle::StrictlyLower), du = triangle(g, Triangle::Upper);
  Val lower = triangle(matmul(l, dl, true, false) + dl, Triangle::StrictlyLower);
  Val inner = lower + triangle(matmul(du, u, false, true), Triangle::Upper);
  // inner U^-T = (U^-1 inner^T)^T
  Val right = swapLast(solveTriangular(factors, swapLast(inner), {.upper = true}));
  Val rows = solveTriangular(factors, right, {.unit = true, .transposed = true});
  // Row i of it is row permutation[i] of the input.
  Dims dims = dimsOf(factors), column = dims;
  column.back() = Dim(1);
  Val indices = broadcastTo(reshapeTo(permutation, column), dims);
  ctx.grad(0, rows.make<ScatterAddOp>(zerosOf(rows, dims).value(), indices, rows, rank - 2));
  return success();
}

} // namespace weft::ir
