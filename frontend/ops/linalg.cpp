// Linear algebra: the factorizations and triangular systems are ops, and all else is made of them.
#include "weft/linalg.h"

#include <limits>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/recorder/record/recorder.h"
#include "frontend/tensor/impl.h"
#include "weft/composites.h"

namespace weft {

using namespace recorder;

namespace {

// The matrices, in the dtype that they are computed in.
Tensor square_matrices(const Tensor &x, const char *name) {
  Var given = floating_only(x, name);
  const Shape &shape = given.dims();
  size_t rank = shape.size();
  if (rank < 2 || shape[rank - 1] != shape[rank - 2])
    fail(ErrorKind::kShape, std::string(name) + " has shape " + to_string(shape) +
                                "; its last two dimensions must be those of a square matrix");
  return wrap(widened(given));
}

Tensor narrowed(const Tensor &x, const Tensor &like) {
  return wrap(rounded(read(x, "x"), floating_only(like).dtype()));
}

Shape with_last(const Shape &lead, const Shape &shape) {
  Shape result = lead;
  result.insert(result.end(), shape.end() - 2, shape.end());
  return result;
}

// Both with the leading dims that theirs broadcast to.
void share_leading(Tensor &a, Tensor &b) {
  Shape left(a.shape().begin(), a.shape().end() - 2), right(b.shape().begin(), b.shape().end() - 2);
  Shape lead = broadcast_shape(left, right, "the leading dims of the matrices",
                               "those of the right side");
  a = a.expand(with_last(lead, a.shape()));
  b = b.expand(with_last(lead, b.shape()));
}

// The right side of a system, [.., n, k], checked against its matrix. `dim` is the one of size n.
// Of vectors, [.., n], it is the last one, and k is 1.
Tensor right_side(const Tensor &b, const Tensor &a, const char *matrix, int64_t dim = -2,
                  bool is_vector = false) {
  Var given = floating_only(b, "b");
  const Shape &shape = given.dims();
  if (is_vector)
    dim = -1;
  if (shape.size() < (is_vector ? 1 : 2) || shape[shape.size() + dim] != a.size(-1))
    fail(ErrorKind::kShape, "b has shape " + to_string(shape) + " and " + matrix + " has shape " +
                                to_string(a.shape()) + "; dimension " + std::to_string(dim) +
                                " of b must have the size of the matrix");
  Tensor right = wrap(widened(given));
  return is_vector ? right.unsqueeze(-1) : right;
}

void want_same_dtype(const Tensor &a, const char *name, const Tensor &b) {
  want_one_dtype(floating_only(a, name).type(), name, floating_only(b, "b").type(), "b");
}

// The x with a x = b.
Tensor solved(Tensor a, Tensor b, bool upper, bool unit = false, bool transposed = false) {
  share_leading(a, b);
  return wrap(emit_solve_triangular(read(a, "a"), read(b, "b"), upper, unit, transposed));
}

// Of A = L L^T (L in the lower triangle), or U^T U.
Tensor solved_by_factor(const Tensor &factor, const Tensor &b, bool upper) {
  return solved(factor, solved(factor, b, upper, false, upper), upper, false, !upper);
}

// Rows in the order in which elimination takes them, and what it leaves.
struct Elimination {
  Tensor factors, permutation;

  Elimination(const Tensor &x, bool regular) {
    auto [lu, order] = emit_lu(read(x, "x"), regular);
    factors = wrap(std::move(lu));
    permutation = wrap(std::move(order));
  }
  // The x with a x = b, for the matrix a that was eliminated.
  Tensor solve(Tensor b) const {
    Tensor a = factors;
    share_leading(a, b);
    Shape rows(b.shape().begin(), b.shape().end() - 1);
    Tensor order = permutation.expand(rows).unsqueeze(-1).expand(b.shape());
    b = solved(a, gather(b, -2, order), false, /*unit=*/true);
    return solved(a, b, true);
  }
  Tensor diagonal() const {
    return factors.diagonal(0, -2, -1);
  }
  // 1 or -1: of the number of pairs of rows whose order changed.
  Tensor parity() const {
    Tensor later = permutation.unsqueeze(-2) < permutation.unsqueeze(-1);
    Tensor pairs = later.to(int32).triu(1).sum(Dims{-2, -1});
    return 1 - 2 * (pairs % 2).to(factors.dtype());
  }
};

SlogdetResult signed_logarithm(const Tensor &x) {
  Elimination done(x, false);
  Tensor diagonal = done.diagonal();
  return {done.parity() * prod(sign(diagonal.detach()), -1), sum(log(abs(diagonal)), -1)};
}

} // namespace

Tensor cholesky(const Tensor &x, bool upper, Location location) {
  Session session("cholesky", location);
  Tensor matrices = wrap(with_own_history(read(square_matrices(x, "x"), "x")));
  // The op's derivative is that of the triangle which it reads.
  if (matrices.requires_grad())
    matrices.register_hook([](const Tensor &g) { return (g + g.mT()) * 0.5; });
  Tensor lower = wrap(emit_cholesky(read(upper ? matrices.mT() : matrices, "x")));
  return narrowed(upper ? lower.mT() : lower, x);
}

Tensor cholesky_solve(const Tensor &b, const Tensor &l, bool upper, Location location) {
  Session session("cholesky_solve", location);
  want_same_dtype(l, "l", b);
  Tensor factor = square_matrices(l, "l");
  return narrowed(solved_by_factor(factor, right_side(b, factor, "l"), upper), b);
}

Tensor cholesky_inverse(const Tensor &l, bool upper, Location location) {
  Session session("cholesky_inverse", location);
  Tensor factor = square_matrices(l, "l");
  Tensor identity = eye(factor.size(-1), {}, factor.dtype());
  return narrowed(solved_by_factor(factor, identity, upper), l);
}

Tensor solve_triangular(const Tensor &a, const Tensor &b, bool upper, bool left,
                        bool unitriangular, Location location) {
  Session session("solve_triangular", location);
  want_same_dtype(a, "a", b);
  Tensor matrix = square_matrices(a, "a");
  Tensor right = right_side(b, matrix, "a", left ? -2 : -1);
  // x a = b is a^T x^T = b^T.
  Tensor x = solved(matrix, left ? right : right.mT(), upper, unitriangular, !left);
  return narrowed(left ? x : x.mT(), b);
}

LuResult lu(const Tensor &x, Location location) {
  Session session("lu", location);
  Tensor matrices = square_matrices(x, "x");
  Elimination done(matrices, false);
  Tensor rows = arange(matrices.size(-1));
  Tensor p = (done.permutation.unsqueeze(-2) == rows.unsqueeze(-1)).to(floating_only(x).dtype());
  Tensor identity = eye(matrices.size(-1), {}, matrices.dtype());
  return {p, narrowed(done.factors.tril(-1) + identity, x), narrowed(done.factors.triu(), x)};
}

Tensor solve(const Tensor &a, const Tensor &b, bool left, Location location) {
  Session session("solve", location);
  want_same_dtype(a, "a", b);
  Tensor matrix = square_matrices(a, "a");
  const Shape &shape = b.shape();
  Shape rows(matrix.shape().begin(), matrix.shape().end() - 1);
  bool is_vector = shape.size() == 1 || shape == rows;
  if (is_vector && !left)
    fail(ErrorKind::kValue, "b has shape " + to_string(shape) +
                                ", vectors; without `left` it must be matrices");
  Tensor right = right_side(b, matrix, "a", left ? -2 : -1, is_vector);
  Elimination done(left ? matrix : matrix.mT(), true);
  Tensor x = done.solve(left ? right : right.mT());
  return narrowed(!left ? x.mT() : is_vector ? x.squeeze(-1) : x, b);
}

Tensor inverse(const Tensor &x, Location location) {
  Session session("inverse", location);
  Tensor matrices = square_matrices(x, "x");
  return narrowed(Elimination(matrices, true).solve(eye(matrices.size(-1), {}, matrices.dtype())),
                  x);
}

Tensor det(const Tensor &x, Location location) {
  Session session("det", location);
  Elimination done(square_matrices(x, "x"), false);
  return narrowed(done.parity() * prod(done.diagonal(), -1), x);
}

Tensor logdet(const Tensor &x, Location location) {
  Session session("logdet", location);
  auto [sign, logarithm] = signed_logarithm(square_matrices(x, "x"));
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  return narrowed(where(sign < 0, kNaN, logarithm), x);
}

SlogdetResult slogdet(const Tensor &x, Location location) {
  Session session("slogdet", location);
  auto [sign, logarithm] = signed_logarithm(square_matrices(x, "x"));
  return {narrowed(sign, x), narrowed(logarithm, x)};
}

} // namespace weft
