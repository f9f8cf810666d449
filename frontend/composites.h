// Further functions under the names of numpy and PyTorch, made of those in weft/ops.h: each records
// a few ops, has every derivative that they have, and fuses with what stands around it. Errors as
// there.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/ops.h"
#include "weft/random.h"

namespace weft {

// --- Elementwise. Integers give float32 where the result is a fraction. ---
// 1 / x.
Tensor reciprocal(const Tensor &x, Location location = Location::current());
// The logarithm to base 2; NaN below 0, -inf at 0.
Tensor log2(const Tensor &x, Location location = Location::current());
// The logarithm to base 10; NaN below 0, -inf at 0.
Tensor log10(const Tensor &x, Location location = Location::current());
// The tangent, of radians.
Tensor tan(const Tensor &x, Location location = Location::current());
// (exp(x) - exp(-x)) / 2.
Tensor sinh(const Tensor &x, Location location = Location::current());
// (exp(x) + exp(-x)) / 2.
Tensor cosh(const Tensor &x, Location location = Location::current());
// The angle in [-pi/2, pi/2] whose sine is x; accurate to the ends of [-1, 1], NaN outside.
Tensor asin(const Tensor &x, Location location = Location::current());
// The angle in [0, pi] whose cosine is x; accurate to the ends of [-1, 1], NaN outside.
Tensor acos(const Tensor &x, Location location = Location::current());
// The angle in [-pi/2, pi/2] whose tangent is x.
Tensor atan(const Tensor &x, Location location = Location::current());
// The inverse of sinh; accurate near 0 and for numbers whose square overflows.
Tensor asinh(const Tensor &x, Location location = Location::current());
// The inverse of cosh, not negative; accurate near 1, NaN below it.
Tensor acosh(const Tensor &x, Location location = Location::current());
// The inverse of tanh; accurate near 0, infinite at 1 and -1, NaN beyond.
Tensor atanh(const Tensor &x, Location location = Location::current());
// The derivative of lgamma(x): -inf at 0, inf at -0, NaN at the negative integers.
Tensor digamma(const Tensor &x, Location location = Location::current());
// Its derivative of order n; digamma itself for 0. Error: n is negative.
Tensor polygamma(int64_t n, const Tensor &x, Location location = Location::current());
// log(x / (1 - x)), of x clamped to [eps, 1 - eps] if eps is given.
Tensor logit(const Tensor &x, std::optional<double> eps = {},
             Location location = Location::current());
// Radians as degrees.
Tensor rad2deg(const Tensor &x, Location location = Location::current());
// Degrees as radians.
Tensor deg2rad(const Tensor &x, Location location = Location::current());
// x - trunc(x).
Tensor frac(const Tensor &x, Location location = Location::current());
// sqrt(x^2 + y^2), which neither overflows nor underflows.
Tensor hypot(TensorArg x, TensorArg y, Location location = Location::current());
// C's fmod, exact: the remainder with the sign of x. An integer's by zero is 0.
Tensor fmod(TensorArg x, TensorArg y, Location location = Location::current());
// The size of x with the sign of y, also of a zero.
Tensor copysign(TensorArg x, TensorArg y, Location location = Location::current());
// Whether the sign bit of x is set, also of a zero; not of NaN.
Tensor signbit(const Tensor &x, Location location = Location::current());
// 0 where x is negative or NaN, 1 where it is positive, at_zero where it is 0.
Tensor heaviside(TensorArg x, TensorArg at_zero, Location location = Location::current());
// sin(pi x) / (pi x), 1 at 0.
Tensor sinc(const Tensor &x, Location location = Location::current());
// The larger one, which is the other where one is NaN. Of equal ones x has the derivative.
Tensor fmax(TensorArg x, TensorArg y, Location location = Location::current());
// The smaller one, in the same way.
Tensor fmin(TensorArg x, TensorArg y, Location location = Location::current());
// base to the powers of linspace(start, stop, steps).
Tensor logspace(double start, double stop, int64_t steps, double base = 10, DType dtype = float32,
                Location location = Location::current());
// x log(y), 0 where x is 0 unless y is NaN.
Tensor xlogy(TensorArg x, TensorArg y, Location location = Location::current());
// x with NaN, infinity and -infinity replaced; the latter by the largest and the smallest number of
// the dtype where nothing is given.
Tensor nan_to_num(const Tensor &x, double nan = 0, std::optional<double> posinf = {},
                  std::optional<double> neginf = {}, Location location = Location::current());
// x + value * a * b.
Tensor addcmul(const Tensor &x, const Tensor &a, const Tensor &b, Scalar value = 1.0,
               Location location = Location::current());
// x + value * a / b.
Tensor addcdiv(const Tensor &x, const Tensor &a, const Tensor &b, Scalar value = 1.0,
               Location location = Location::current());
// The integer next to x towards 0; integers stay.
Tensor trunc(const Tensor &x, Location location = Location::current());
// The largest integer not above x / y, exact for integers, whose quotient by zero is 0.
Tensor floor_divide(TensorArg x, TensorArg y, Location location = Location::current());
// x + weight * (y - x), from the nearer end: y itself where weight is 1.
Tensor lerp(const Tensor &x, const Tensor &y, TensorArg weight,
            Location location = Location::current());
// log(exp(x) + exp(y)), which does not overflow.
Tensor logaddexp(const Tensor &x, const Tensor &y, Location location = Location::current());
// Bool: whether |x - y| <= atol + rtol |y|. Infinities of one sign are close; NaN is close to
// nothing, unless equal_nan.
Tensor is_close(const Tensor &x, const Tensor &y, double rtol = 1e-5, double atol = 1e-8,
                bool equal_nan = false, Location location = Location::current());
// Whether all are close. Computes x and y now.
bool all_close(const Tensor &x, const Tensor &y, double rtol = 1e-5, double atol = 1e-8,
               bool equal_nan = false, Location location = Location::current());
// all_close(), under PyTorch's name.
inline bool allclose(const Tensor &x, const Tensor &y, double rtol = 1e-5, double atol = 1e-8,
                     bool equal_nan = false, Location location = Location::current()) {
  return all_close(x, y, rtol, atol, equal_nan, location);
}
// Whether shapes and all elements are equal. Computes x and y now.
bool equal(const Tensor &x, const Tensor &y, Location location = Location::current());

// --- Along dims ---
// log(sum(exp(x))) over dims (default: all), which does not overflow.
Tensor logsumexp(const Tensor &x, Dims dims = {}, bool keepdim = false,
                 Location location = Location::current());
// The standard deviation, with divisor n - correction under the root.
Tensor std(const Tensor &x, Dims dims = {}, int64_t correction = 1, bool keepdim = false,
           Location location = Location::current());
// How many elements are not 0: int64.
Tensor count_nonzero(const Tensor &x, Dims dims = {}, Location location = Location::current());
// The sum of the elements that are not NaN.
Tensor nansum(const Tensor &x, Dims dims = {}, bool keepdim = false,
              Location location = Location::current());
// The mean of the elements that are not NaN.
Tensor nanmean(const Tensor &x, Dims dims = {}, bool keepdim = false,
               Location location = Location::current());
// The p-norm over dims: (sum |x|^p)^(1/p); for p = 0 how many are not 0, for infinity (-infinity)
// the largest (smallest) |x|. Its derivatives at 0 are 0.
Tensor vector_norm(const Tensor &x, NormOrder p = 2, Dims dims = {}, bool keepdim = false,
                   Location location = Location::current());
// var(x, ...) and mean(x, ...).
std::pair<Tensor, Tensor> var_mean(const Tensor &x, Dims dims = {}, int64_t correction = 1,
                                   bool keepdim = false, Location location = Location::current());
// std(x, ...) and mean(x, ...).
std::pair<Tensor, Tensor> std_mean(const Tensor &x, Dims dims = {}, int64_t correction = 1,
                                   bool keepdim = false, Location location = Location::current());
// min(x, ...) and max(x, ...).
std::pair<Tensor, Tensor> aminmax(const Tensor &x, Dims dims = {}, bool keepdim = false,
                                  Location location = Location::current());
// The covariances of the rows of x [variables, samples]: [variables, variables]. The variance of a
// vector.
Tensor cov(const Tensor &x, int64_t correction = 1, Location location = Location::current());
// Pearson's correlations of the rows of x [variables, samples]: cov(x), divided by the standard
// deviations.
Tensor corrcoef(const Tensor &x, Location location = Location::current());
// The area under y along dim, of samples dx apart, or at the places x (a vector, or as y).
Tensor trapezoid(const Tensor &y, double dx = 1, int64_t dim = -1,
                 Location location = Location::current());
Tensor trapezoid(const Tensor &y, const Tensor &x, int64_t dim = -1,
                 Location location = Location::current());
// The n-th differences of neighbours along dim; of bools, whether they differ.
Tensor diff(const Tensor &x, int64_t n = 1, int64_t dim = -1,
            Location location = Location::current());
// log of the cumsum of exp(x) along dim, which does not overflow.
Tensor logcumsumexp(const Tensor &x, int64_t dim, Location location = Location::current());
// The products of the elements up to each one along dim. bool and integers give int64.
Tensor cumprod(const Tensor &x, int64_t dim, Location location = Location::current());
// x / max(|x|, eps), with the Euclidean norm along dim.
Tensor normalize(const Tensor &x, int64_t dim = 1, double eps = 1e-12,
                 Location location = Location::current());
// The cosine of the angle between x and y along dim: x y / (max(|x|, eps) max(|y|, eps)).
Tensor cosine_similarity(const Tensor &x, const Tensor &y, int64_t dim = 1, double eps = 1e-8,
                         Location location = Location::current());
// The p-norm of the difference of each row of x [.., n, d] and each of y [.., m, d]: [.., n, m]; p
// = 0 counts the elements that differ. Its derivative at 0 is 0. Error: p is negative or NaN.
Tensor cdist(const Tensor &x, const Tensor &y, double p = 2,
             Location location = Location::current());

// --- Order. NaN is the largest; equal elements keep their order. ---
// The elements along dim in order, and where each came from (int64). On the CPU a radix sort; a
// device without a sort of its own compares each element with each other along dim (explain says
// so).
std::pair<Tensor, Tensor> sort(const Tensor &x, int64_t dim = -1, bool descending = false,
                               Location location = Location::current());
// sort(x, dim, descending).second.
Tensor argsort(const Tensor &x, int64_t dim = -1, bool descending = false,
               Location location = Location::current());
// sort(x, 0).first.
Tensor msort(const Tensor &x, Location location = Location::current());
// The k largest (smallest) along dim, in order, and where each came from; of equal ones the first.
// A few are found without sorting the rest.
std::pair<Tensor, Tensor> topk(const Tensor &x, int64_t k, int64_t dim = -1, bool largest = true,
                               Location location = Location::current());
// The k-th smallest along dim (k from 1), and where it came from.
std::pair<Tensor, Tensor> kthvalue(const Tensor &x, int64_t k, int64_t dim = -1,
                                   bool keepdim = false, Location location = Location::current());
// The median along dim, of an even number the lower one of the middle two, and where it came from;
// the first NaN where there is one. Of all elements without dim. The gradient goes to that element
// alone, also where others equal it.
std::pair<Tensor, Tensor> median(const Tensor &x, int64_t dim, bool keepdim = false,
                                 Location location = Location::current());
Tensor median(const Tensor &x, Location location = Location::current());
// The largest element along dim, or the first NaN, and where it stands: of equal ones the first,
// which alone has a derivative (max shares it). PyTorch's max(dim).
std::pair<Tensor, Tensor> max_with_indices(const Tensor &x, int64_t dim, bool keepdim = false,
                                           Location location = Location::current());
// The same of the smallest element: PyTorch's min(dim).
std::pair<Tensor, Tensor> min_with_indices(const Tensor &x, int64_t dim, bool keepdim = false,
                                           Location location = Location::current());
// The largest of the elements up to each one along dim, NaN from the first one on, and where it
// stands: of equal ones the last.
std::pair<Tensor, Tensor> cummax(const Tensor &x, int64_t dim,
                                 Location location = Location::current());
// The same of the smallest elements.
std::pair<Tensor, Tensor> cummin(const Tensor &x, int64_t dim,
                                 Location location = Location::current());
// The value that stands most often along dim, of several the smallest, and where it stands last.
std::pair<Tensor, Tensor> mode(const Tensor &x, int64_t dim = -1, bool keepdim = false,
                               Location location = Location::current());
// The element at q (n - 1), for q in [0, 1], in the order of the n elements along dim (of all
// without dim), between two of them by linear interpolation; NaN where one is NaN. x must be
// floating. Of several q, results stand along a new first dim.
Tensor quantile(const Tensor &x, double q, std::optional<int64_t> dim = {}, bool keepdim = false,
                Location location = Location::current());
Tensor quantile(const Tensor &x, const std::vector<double> &q, std::optional<int64_t> dim = {},
                bool keepdim = false, Location location = Location::current());
// 0, ..., n-1 in a random order: int64 [n].
Tensor randperm(int64_t n, Generator &generator = default_generator(),
                Location location = Location::current());

// --- Counting and search ---
// How often each of 0, 1, ... stands in x, a vector of integers that are not negative; with weights
// (a vector as long), their sums. int64, or the dtype of floating weights, or float64; [max(x) +
// 1], at least minlength. Computes x now.
Tensor bincount(const Tensor &x, const Tensor &weights = Tensor(), int64_t minlength = 0,
                Location location = Location::current());
// How many elements lie in each of `bins` equal parts of [low, high], in the dtype of x, which must
// be floating; others, and NaN, count nowhere. Without low and high, of the range of x: a run fails
// where an element of x is not finite.
Tensor histc(const Tensor &x, int64_t bins = 100, double low = 0, double high = 0,
             Location location = Location::current());
// Where each value would stand in `sorted` ([n], or [.., n] with the leading dims of values), in
// ascending order: before what is equal to it, or with `right` behind it. int64 of the shape of
// values; log2(n) gathers.
Tensor searchsorted(const Tensor &sorted, const Tensor &values, bool right = false,
                    Location location = Location::current());
// searchsorted(boundaries, x, right).
Tensor bucketize(const Tensor &x, const Tensor &boundaries, bool right = false,
                 Location location = Location::current());
// Whether each element of x is one of `elements`. Bool.
Tensor isin(const Tensor &x, const Tensor &elements, Location location = Location::current());
// What unique() gives.
struct UniqueResult {
  Tensor values;  // [count]
  Tensor inverse; // of the shape of x: the place of each element in values; int64
  Tensor counts;  // how often each value stands in x; int64
};
// The values of x in ascending order, each once (each NaN is one of its own). Sorts x now, since
// their number is a shape (cut reason `mask`).
UniqueResult unique(const Tensor &x, Location location = Location::current());
// The values of x, flattened, without those that are equal to the one before.
UniqueResult unique_consecutive(const Tensor &x, Location location = Location::current());

// --- Arrangement ---
// x with its elements moved on by `shift` along dim, around the end.
Tensor roll(const Tensor &x, int64_t shift, int64_t dim, Location location = Location::current());
// By several shifts along as many dims; without dims, of the flattened tensor.
Tensor roll(const Tensor &x, const Shape &shifts, Dims dims = {},
            Location location = Location::current());
// The views x.select(dim, 0), x.select(dim, 1), ...
std::vector<Tensor> unbind(const Tensor &x, int64_t dim = 0,
                           Location location = Location::current());
// A view with dim `source` at the place `destination`, the others in their order.
Tensor movedim(const Tensor &x, int64_t source, int64_t destination,
               Location location = Location::current());
// For vectors of n, m, ... elements, or numbers, as many views [n, m, ...]: element i of the first
// at [i, .., ..], of the second at [.., i, ..].
std::vector<Tensor> meshgrid(const std::vector<Tensor> &axes,
                             Location location = Location::current());
// A view of the elements [i, i + offset] of two dims, which becomes the last dim: a write to it
// shows in x.
Tensor diagonal(const Tensor &x, int64_t offset = 0, int64_t dim0 = 0, int64_t dim1 = 1,
                Location location = Location::current());
// Of a vector, the matrix with it on that diagonal and 0 elsewhere; of a matrix, the diagonal as a
// view.
Tensor diag(const Tensor &x, int64_t offset = 0, Location location = Location::current());
// The matrices over two new dims, dim1 and dim2 of the result, with the last dim of x on their
// diagonal and 0 elsewhere.
Tensor diag_embed(const Tensor &x, int64_t offset = 0, int64_t dim1 = -2, int64_t dim2 = -1,
                  Location location = Location::current());
// x turned by k quarters in the plane of two dims, from the first towards the second.
Tensor rot90(const Tensor &x, int64_t k = 1, Dims dims = {0, 1},
             Location location = Location::current());
// A view with dim split into dims of these sizes, one of which may be -1.
Tensor unflatten(const Tensor &x, int64_t dim, const Shape &sizes,
                 Location location = Location::current());
// gather, where the dims of x and indices other than dim broadcast: numpy's take_along_axis, the
// way back from argsort.
Tensor take_along_dim(const Tensor &x, const Tensor &indices, int64_t dim,
                      Location location = Location::current());
// The elements of x, as one row, at the indices (int64 or int32): their shape.
Tensor take(const Tensor &x, const Tensor &indices, Location location = Location::current());
// The rows (a, b, ...) of an element of each vector, the last one running fastest: [n m ..,
// vectors]; of one vector itself.
Tensor cartesian_prod(const std::vector<Tensor> &vectors, Location location = Location::current());
// The matrix with these matrices (vectors are rows) along its diagonal and 0 elsewhere.
Tensor block_diag(const std::vector<Tensor> &blocks, Location location = Location::current());
Tensor trace(const Tensor &x, Location location = Location::current()); // of a matrix
// x with result[indices[i][j]][j] = source[i][j], for dim 0; of several values for one element the
// last one. source, a number or of x's dtype, broadcasts to the indices' shape; where it is larger,
// its first elements are taken.
Tensor scatter(const Tensor &x, int64_t dim, const Tensor &indices, TensorArg source,
               Location location = Location::current());
// x with the slices of source, of x's dtype, added to its own at the indices (a vector) along dim.
// Of bools a sum is whether one is true.
Tensor index_add(const Tensor &x, int64_t dim, const Tensor &indices, const Tensor &source,
                 Location location = Location::current());

// x with the slices at the indices (a vector) along dim replaced by those of source; of several for
// one index the last one.
Tensor index_copy(const Tensor &x, int64_t dim, const Tensor &indices, const Tensor &source,
                  Location location = Location::current());

// x with the slices at the indices (a vector, or a number) along dim filled with value.
Tensor index_fill(const Tensor &x, int64_t dim, const Tensor &indices, Scalar value,
                  Location location = Location::current());

// --- Products ---
Tensor dot(const Tensor &x, const Tensor &y, Location location = Location::current()); // of vectors
Tensor outer(const Tensor &x, const Tensor &y,
             Location location = Location::current()); // [n], [m] -> [n, m]
// The product of matrices, [n, k] and [k, m]; nothing broadcasts.
Tensor mm(const Tensor &x, const Tensor &y, Location location = Location::current());
// Of as many, [b, n, k] and [b, k, m].
Tensor bmm(const Tensor &x, const Tensor &y, Location location = Location::current());
// Of a matrix and a vector, [n, k] and [k].
Tensor mv(const Tensor &x, const Tensor &y, Location location = Location::current());
// beta x + alpha (a b): a [n, k], b [k, m], x broadcasts to [n, m]. What stands beside a factor of
// 0 is left out, NaN included. Of integers the factors must be whole numbers.
Tensor addmm(const Tensor &x, const Tensor &a, const Tensor &b, Scalar beta = 1.0,
             Scalar alpha = 1.0, Location location = Location::current());
// The same of a vector: a [n, k], b [k], x broadcasts to [n].
Tensor addmv(const Tensor &x, const Tensor &a, const Tensor &b, Scalar beta = 1.0,
             Scalar alpha = 1.0, Location location = Location::current());
// The same of as many matrices: a [b, n, k], b [b, k, m], x broadcasts to [b, n, m].
Tensor baddbmm(const Tensor &x, const Tensor &a, const Tensor &b, Scalar beta = 1.0,
               Scalar alpha = 1.0, Location location = Location::current());
// The cross product along dim, of size 3; the others broadcast.
Tensor cross(const Tensor &x, const Tensor &y, int64_t dim = -1,
             Location location = Location::current());
// Each element of x times the whole of y: dims multiply, those of the lower rank get ones in front.
Tensor kron(const Tensor &x, const Tensor &y, Location location = Location::current());
// The sum of products over the last `dims` dims of x and the first of y, or over pairs of dims.
Tensor tensordot(const Tensor &x, const Tensor &y, int64_t dims = 2,
                 Location location = Location::current());
Tensor tensordot(const Tensor &x, const Tensor &y, const Shape &x_dims, const Shape &y_dims,
                 Location location = Location::current());
// The p-norm of x - y + eps along the last dim.
Tensor pairwise_distance(const Tensor &x, const Tensor &y, double p = 2, double eps = 1e-6,
                         bool keepdim = false, Location location = Location::current());
// numpy's einsum: "ij,jk->ik". A letter is a dim, "..." the dims that are left, and sizes of 1
// broadcast; a letter that the result lacks is summed over, one that stands twice in an operand
// takes its diagonal. Without "->" the result has the letters that stand once, in alphabetical
// order. Operands are multiplied from left to right: by matmul where there is something to sum over
// and both have dims of their own, else elementwise.
Tensor einsum(std::string_view equation, const std::vector<Tensor> &operands,
              Location location = Location::current());

} // namespace weft
