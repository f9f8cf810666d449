// Linear algebra of square matrices, with PyTorch's names and rules: factorizations, systems of
// equations, determinants. Of a tensor [.., n, n] each of the last two dims is a matrix of its own.
// All are differentiable to any order; matrices are float32 or float64, and 16-bit ones are
// computed in float32.
//
// What cannot be computed (a matrix that is not positive definite, a singular one) is an error
// where a value is read, as that of an index out of range is.
#pragma once

#include "weft/ops.h"

namespace weft {

// The lower triangular L with L L^T = x, or with `upper` its transpose. Reads that triangle of x;
// its gradient is that of a symmetric x, and symmetric. A run fails where x is not positive
// definite.
Tensor cholesky(const Tensor &x, bool upper = false, Location location = Location::current());
// The x with A x = b, for the A whose Cholesky factor is l. b: [.., n, k]; leading dims broadcast.
Tensor cholesky_solve(const Tensor &b, const Tensor &l, bool upper = false,
                      Location location = Location::current());
// A^-1, for the A whose Cholesky factor is l.
Tensor cholesky_inverse(const Tensor &l, bool upper = false,
                        Location location = Location::current());
// The x with a x = b, or without `left` x a = b, where only the upper or lower triangle of a is
// read, and with `unitriangular` its diagonal is taken as 1. b: [.., n, k] ([.., k, n]); leading
// dims broadcast. A zero in the diagonal gives infinity or NaN.
Tensor solve_triangular(const Tensor &a, const Tensor &b, bool upper, bool left = true,
                        bool unitriangular = false, Location location = Location::current());

// What lu() gives: x = p l u.
struct LuResult {
  Tensor p; // of x's dtype: a 1 in each row and column
  Tensor l; // lower triangular, with ones on the diagonal
  Tensor u; // upper triangular
};
// By elimination that takes the largest element of each column as its pivot.
LuResult lu(const Tensor &x, Location location = Location::current());
// The x with a x = b, or without `left` x a = b. b: [.., n, k] ([.., k, n]), or a vector [.., n]
// where it has the leading dims of a, or one dim; others broadcast. A run fails where a is
// singular.
Tensor solve(const Tensor &a, const Tensor &b, bool left = true,
             Location location = Location::current());
// A run fails where x is singular.
Tensor inverse(const Tensor &x, Location location = Location::current());
// The determinant: of [.., n, n] a tensor [..]. At a singular matrix it has no derivative here.
Tensor det(const Tensor &x, Location location = Location::current());
// Its logarithm: NaN of a negative one, -inf of 0.
Tensor logdet(const Tensor &x, Location location = Location::current());
// What slogdet() gives: the determinant is sign exp(logabsdet).
struct SlogdetResult {
  Tensor sign;      // 1, -1 or 0; without derivative
  Tensor logabsdet; // -inf of a singular matrix
};
// The determinant of [.., n, n] by its sign and its logarithm [..], which holds where it is too
// large or too small for a number.
SlogdetResult slogdet(const Tensor &x, Location location = Location::current());

} // namespace weft
