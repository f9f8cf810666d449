// Further functions under the names of numpy and PyTorch, made of those in weft/ops.h: each records a few ops, has every derivative that
// they have, and fuses with what stands around it. Errors as there.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "weft/ops.h"
#include "weft/random.h"

namespace weft {

// --- Elementwise. Integers give float32 where the result is a fraction. ---
Tensor reciprocal(const Tensor &x, Location location = Location::current());
Tensor log2(const Tensor &x, Location location = Location::current());
Tensor log10(const Tensor &x, Location location = Location::current());
Tensor tan(const Tensor &x, Location location = Location::current());
Tensor sinh(const Tensor &x, Location location = Location::current());
Tensor cosh(const Tensor &x, Location location = Location::current());
// The integer next to x towards 0; integers stay.
Tensor trunc(const Tensor &x, Location location = Location::current());
// The largest integer not above x / y, exact for integers, whose quotient by zero is 0.
Tensor floor_divide(TensorArg x, TensorArg y, Location location = Location::current());
// x + weight * (y - x).
Tensor lerp(const Tensor &x, const Tensor &y, TensorArg weight, Location location = Location::current());
// log(exp(x) + exp(y)), which does not overflow.
Tensor logaddexp(const Tensor &x, const Tensor &y, Location location = Location::current());
// Bool: whether |x - y| <= atol + rtol |y|. Infinities of one sign are close; NaN is close to nothing, unless equal_nan.
Tensor is_close(const Tensor &x, const Tensor &y, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false,
                Location location = Location::current());
// Whether all are close; whether shapes and all elements are equal. Both compute x and y now.
bool all_close(const Tensor &x, const Tensor &y, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false,
               Location location = Location::current());
bool equal(const Tensor &x, const Tensor &y, Location location = Location::current());

// --- Along dims ---
// log(sum(exp(x))) over dims (default: all), which does not overflow.
Tensor logsumexp(const Tensor &x, Dims dims = {}, bool keepdim = false, Location location = Location::current());
// The standard deviation, with divisor n - correction under the root.
Tensor std(const Tensor &x, Dims dims = {}, int64_t correction = 1, bool keepdim = false, Location location = Location::current());
// The products of the elements up to each one along dim, in log2(n) passes. bool and integers give int64.
Tensor cumprod(const Tensor &x, int64_t dim, Location location = Location::current());
// x / max(|x|, eps), with the Euclidean norm along dim.
Tensor normalize(const Tensor &x, int64_t dim = 1, double eps = 1e-12, Location location = Location::current());
// The cosine of the angle between x and y along dim: x y / max(|x| |y|, eps).
Tensor cosine_similarity(const Tensor &x, const Tensor &y, int64_t dim = 1, double eps = 1e-8, Location location = Location::current());
// The Euclidean distance of each row of x [.., n, d] to each of y [.., m, d]: [.., n, m]. Its derivative at 0 is 0.
Tensor cdist(const Tensor &x, const Tensor &y, Location location = Location::current());

// --- Order. NaN is the largest; equal elements keep their order. ---
// The elements along dim in order, and where each came from (int64). On the CPU a radix sort; a device without a sort of its own compares
// each element with each other along dim (explain says so).
std::pair<Tensor, Tensor> sort(const Tensor &x, int64_t dim = -1, bool descending = false, Location location = Location::current());
Tensor argsort(const Tensor &x, int64_t dim = -1, bool descending = false, Location location = Location::current());
// sort(x, 0).first.
Tensor msort(const Tensor &x, Location location = Location::current());
// The k largest (smallest) along dim, in order, and where each came from; of equal ones the first. A few are found without sorting the
// rest.
std::pair<Tensor, Tensor> topk(const Tensor &x, int64_t k, int64_t dim = -1, bool largest = true, Location location = Location::current());
// The k-th smallest along dim (k from 1), and where it came from.
std::pair<Tensor, Tensor> kthvalue(const Tensor &x, int64_t k, int64_t dim = -1, bool keepdim = false,
                                   Location location = Location::current());
// The median along dim, of an even number the lower one of the middle two, and where it came from; the first NaN where there is one. Of all
// elements without dim.
std::pair<Tensor, Tensor> median(const Tensor &x, int64_t dim, bool keepdim = false, Location location = Location::current());
Tensor median(const Tensor &x, Location location = Location::current());
// 0, ..., n-1 in a random order: int64 [n].
Tensor randperm(int64_t n, Generator &generator = default_generator(), Location location = Location::current());

// --- Arrangement ---
// x with its elements moved on by `shift` along dim, around the end.
Tensor roll(const Tensor &x, int64_t shift, int64_t dim, Location location = Location::current());
// By several shifts along as many dims; without dims, of the flattened tensor.
Tensor roll(const Tensor &x, const Shape &shifts, Dims dims = {}, Location location = Location::current());
// The views x.select(dim, 0), x.select(dim, 1), ...
std::vector<Tensor> unbind(const Tensor &x, int64_t dim = 0, Location location = Location::current());
// A view with dim `source` at the place `destination`, the others in their order.
Tensor movedim(const Tensor &x, int64_t source, int64_t destination, Location location = Location::current());
// For vectors of n, m, ... elements as many views [n, m, ...]: element i of the first at [i, .., ..], of the second at [.., i, ..].
std::vector<Tensor> meshgrid(const std::vector<Tensor> &axes, Location location = Location::current());
// A view of the elements [i, i + offset] of two dims, which becomes the last dim: a write to it shows in x.
Tensor diagonal(const Tensor &x, int64_t offset = 0, int64_t dim0 = 0, int64_t dim1 = 1, Location location = Location::current());
// Of a vector, the matrix with it on that diagonal and 0 elsewhere; of a matrix, the diagonal as a view.
Tensor diag(const Tensor &x, int64_t offset = 0, Location location = Location::current());
Tensor trace(const Tensor &x, Location location = Location::current()); // of a matrix
// x with result[indices[i][j]][j] = source[i][j], for dim 0; of several values for one element the last one. source broadcasts to
// the indices' shape.
Tensor scatter(const Tensor &x, int64_t dim, const Tensor &indices, TensorArg source, Location location = Location::current());
// x with the slices of source added to its own at the indices (a vector) along dim.
Tensor index_add(const Tensor &x, int64_t dim, const Tensor &indices, const Tensor &source, Location location = Location::current());

// x with the slices at the indices (a vector) along dim replaced by those of source; of several for one index the last one.
Tensor index_copy(const Tensor &x, int64_t dim, const Tensor &indices, const Tensor &source, Location location = Location::current());

// --- Products ---
Tensor dot(const Tensor &x, const Tensor &y, Location location = Location::current());   // of vectors
Tensor outer(const Tensor &x, const Tensor &y, Location location = Location::current()); // [n], [m] -> [n, m]
// numpy's einsum: "ij,jk->ik". A letter is a dim, "..." the dims that are left, which broadcast; a letter that the result lacks is summed
// over, one that stands twice in an operand takes its diagonal. Without "->" the result has the letters that stand once, in alphabetical
// order. Operands are multiplied from left to right, each time by matmul where there is something to sum over.
Tensor einsum(std::string_view equation, const std::vector<Tensor> &operands, Location location = Location::current());

} // namespace weft
