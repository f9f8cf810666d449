// The functions on tensors, named as in numpy and PyTorch. Operands of different shapes broadcast
// by numpy's rule, of different dtypes promote by PyTorch's. Every error names the op, the
// arguments, their shapes and dtypes, and stands at the caller's line.
#pragma once

#include "weft/tensor.h"

namespace weft {

class Generator;

// --- Elementwise ---
#define WEFT_UNARY(function, record, operands, doc)                                                \
  Tensor function(const Tensor &x, Location location = Location::current());
#define WEFT_BINARY(function, record, operands, doc)                                               \
  Tensor function(TensorArg x, TensorArg y, Location location = Location::current());
#include "weft/ops/elementwise.inc"
#undef WEFT_UNARY
#undef WEFT_BINARY
// x + alpha * y, rounded once. Error: alpha is no integer where x and y are integers, or bool where
// they are not.
Tensor add(TensorArg x, TensorArg y, Scalar alpha, Location location = Location::current());
// x - alpha * y, alike.
Tensor sub(TensorArg x, TensorArg y, Scalar alpha, Location location = Location::current());
// True division, as in PyTorch: integers give float32.
Tensor div(TensorArg x, TensorArg y, Location location = Location::current());
// x - y * floor(x / y), as PyTorch's and Python's %: it has the sign of y. An integer's by zero is
// 0.
Tensor remainder(TensorArg x, TensorArg y, Location location = Location::current());
// The angle of the point (y, x) from the positive x-axis, in [-pi, pi], as C's atan2. Integers give
// float32. Its derivative at (0, 0) is 0.
Tensor atan2(TensorArg y, TensorArg x, Location location = Location::current());
// x * x; of bools in int64, as PyTorch's pow(x, 2) is.
Tensor square(const Tensor &x, Location location = Location::current());
// approximate: "none" (erf) or "tanh" (Hendrycks and Gimpel 2016).
Tensor gelu(const Tensor &x, std::string_view approximate = "none",
            Location location = Location::current());
// Whether each element is NaN. Bool, as the next two; integers are finite.
Tensor is_nan(const Tensor &x, Location location = Location::current());
// Whether each element is infinite.
Tensor is_inf(const Tensor &x, Location location = Location::current());
// Whether each element is neither NaN nor infinite.
Tensor is_finite(const Tensor &x, Location location = Location::current());
// Whether x == 0. Bool, as the next three, which take operands other than bool as x != 0.
Tensor logical_not(const Tensor &x, Location location = Location::current());
// Whether both are true.
Tensor logical_and(TensorArg x, TensorArg y, Location location = Location::current());
// Whether at least one is true.
Tensor logical_or(TensorArg x, TensorArg y, Location location = Location::current());
// Whether exactly one is true.
Tensor logical_xor(TensorArg x, TensorArg y, Location location = Location::current());
// All bits inverted; of a bool, the other one. Floating operands are an error, here and in the next
// three.
Tensor bitwise_not(const Tensor &x, Location location = Location::current());
// The bits that both have.
Tensor bitwise_and(TensorArg x, TensorArg y, Location location = Location::current());
// The bits that at least one has.
Tensor bitwise_or(TensorArg x, TensorArg y, Location location = Location::current());
// The bits that exactly one has.
Tensor bitwise_xor(TensorArg x, TensorArg y, Location location = Location::current());
// The bits of x moved up by y places, zeros below: x * 2^y, which wraps. 0 where y is negative or
// not below the width of the dtype, which the operands promote to. Errors, here and in the next
// one: bool and floating operands.
Tensor bitwise_left_shift(TensorArg x, TensorArg y, Location location = Location::current());
// The bits of x moved down by y places, copies of the sign above: x / 2^y, rounded down. -1 or 0,
// the sign alone, where y is negative or not below the width.
Tensor bitwise_right_shift(TensorArg x, TensorArg y, Location location = Location::current());
// Whether x == y. Bool, as the next five; operands broadcast and promote, and NaN is equal to
// nothing.
Tensor eq(TensorArg x, TensorArg y, Location location = Location::current());
// Whether x != y: true for NaN.
Tensor ne(TensorArg x, TensorArg y, Location location = Location::current());
// Whether x < y.
Tensor lt(TensorArg x, TensorArg y, Location location = Location::current());
// Whether x <= y.
Tensor le(TensorArg x, TensorArg y, Location location = Location::current());
// Whether x > y.
Tensor gt(TensorArg x, TensorArg y, Location location = Location::current());
// Whether x >= y.
Tensor ge(TensorArg x, TensorArg y, Location location = Location::current());
// x where the condition (bool) holds, else y.
Tensor where(const Tensor &condition, TensorArg x, TensorArg y,
             Location location = Location::current());
// value where the mask (bool, which broadcasts to x) holds, else x. The dtype is that of x.
Tensor masked_fill(const Tensor &x, const Tensor &mask, TensorArg value,
                   Location location = Location::current());
// min where x is at most min, max where it is at least max; a bound may be left out. NaN stays, and
// a bound that is NaN gives NaN. The derivative at a bound is 0, as PyTorch's. Scalar bounds are
// constants of the program until a second value is seen at the same line. One beyond the range of
// an integer dtype bounds nothing; as in minimum and maximum, it is an error where all numbers of
// the dtype lie beyond it.
Tensor clamp(const Tensor &x, std::optional<Scalar> min, std::optional<Scalar> max = {},
             Location location = Location::current());
// minimum(maximum(x, min), max), of bounds that broadcast with x; an undefined one bounds nothing.
// At a bound it and x share the derivative equally.
Tensor clamp(const Tensor &x, const Tensor &min, const Tensor &max,
             Location location = Location::current());
// clamp(x, min), of a number or a tensor.
Tensor clamp_min(const Tensor &x, TensorArg min, Location location = Location::current());
// clamp(x, {}, max), of a number or a tensor.
Tensor clamp_max(const Tensor &x, TensorArg max, Location location = Location::current());
// x sigmoid(x) (Elfwing et al. 2017).
Tensor silu(const Tensor &x, Location location = Location::current());
// x above 0, else alpha (exp(x) - 1) (Clevert et al. 2015).
Tensor elu(const Tensor &x, Scalar alpha = 1.0, Location location = Location::current());
// Klambauer et al. 2017.
Tensor selu(const Tensor &x, Location location = Location::current());
// x above 0, else slope * x.
Tensor leaky_relu(const Tensor &x, Scalar slope = 0.01, Location location = Location::current());
// log(sigmoid(x)) = -softplus(-x), which does not underflow.
Tensor log_sigmoid(const Tensor &x, Location location = Location::current());
// x tanh(softplus(x)) (Misra 2019).
Tensor mish(const Tensor &x, Location location = Location::current());
// clamp(x, low, high), whose derivative at the bounds is 0, and at NaN 1.
Tensor hardtanh(const Tensor &x, Scalar low = -1.0, Scalar high = 1.0,
                Location location = Location::current());
// x / (1 + |x|).
Tensor softsign(const Tensor &x, Location location = Location::current());
// x - tanh(x).
Tensor tanhshrink(const Tensor &x, Location location = Location::current());
// x where |x| > lambda, else 0.
Tensor hardshrink(const Tensor &x, Scalar lambda = 0.5, Location location = Location::current());
// x moved towards 0 by lambda; 0 where |x| <= lambda.
Tensor softshrink(const Tensor &x, Scalar lambda = 0.5, Location location = Location::current());
// x above 0, else alpha (exp(x / alpha) - 1) (Barron 2017).
Tensor celu(const Tensor &x, Scalar alpha = 1.0, Location location = Location::current());
// x above 0, else weight x: weight has one element, or one a channel (dim 1 of x) (He et al. 2015).
Tensor prelu(const Tensor &x, const Tensor &weight, Location location = Location::current());
// The first half of x along dim times the sigmoid of the second (Dauphin et al. 2017).
Tensor glu(const Tensor &x, int64_t dim = -1, Location location = Location::current());
// x in another dtype. Float to integer rounds towards zero and saturates (NaN gives 0), integers
// wrap, between floats to nearest even; a bool is x != 0.
Tensor cast(const Tensor &x, DType dtype, Location location = Location::current());

// --- Reductions over dims (default: all). The sum and product of bool and integers is int64; mean
// and var want floating point. ---
// The sum; of no elements 0.
Tensor sum(const Tensor &x, Dims dims = {}, bool keepdim = false,
           Location location = Location::current());
// The sum over the number of elements.
Tensor mean(const Tensor &x, Dims dims = {}, bool keepdim = false,
            Location location = Location::current());
// The largest element, NaN if there is one; equal ones share the derivative. Error: no elements.
Tensor max(const Tensor &x, Dims dims = {}, bool keepdim = false,
           Location location = Location::current());
// The smallest element, NaN if there is one; equal ones share the derivative. Error: no elements.
Tensor min(const Tensor &x, Dims dims = {}, bool keepdim = false,
           Location location = Location::current());
// max(), under PyTorch's name for that of several dims.
Tensor amax(const Tensor &x, Dims dims = {}, bool keepdim = false,
            Location location = Location::current());
// min(), alike.
Tensor amin(const Tensor &x, Dims dims = {}, bool keepdim = false,
            Location location = Location::current());
// The product; of no elements 1.
Tensor prod(const Tensor &x, Dims dims = {}, bool keepdim = false,
            Location location = Location::current());
// Whether x != 0 for any element. Bool.
Tensor any(const Tensor &x, Dims dims = {}, bool keepdim = false,
           Location location = Location::current());
// Whether x != 0 for all elements. Bool.
Tensor all(const Tensor &x, Dims dims = {}, bool keepdim = false,
           Location location = Location::current());
// The variance with divisor n - correction.
Tensor var(const Tensor &x, Dims dims = {}, int64_t correction = 1, bool keepdim = false,
           Location location = Location::current());
// The p-norm over dims, of one or several: vector_norm in weft/composites.h. As in libtorch, p
// comes first: norm(x, 2, dim).
Tensor norm(const Tensor &x, NormOrder p = 2, Dims dims = {}, bool keepdim = false,
            Location location = Location::current());
// The index (int64) of the first largest element along dim, or of the first NaN; without dim, of
// the flattened tensor. Error: no elements.
Tensor argmax(const Tensor &x, std::optional<int64_t> dim = {}, bool keepdim = false,
              Location location = Location::current());
// The same of the first smallest element.
Tensor argmin(const Tensor &x, std::optional<int64_t> dim = {}, bool keepdim = false,
              Location location = Location::current());
// The sums of the elements up to each one along dim. bool and integers give int64.
Tensor cumsum(const Tensor &x, int64_t dim, Location location = Location::current());

// --- Linear algebra ---
// numpy's matmul: [.., m, k] x [.., k, n] -> [.., m, n], leading dims broadcast; one-dimensional
// operands are rows and columns.
Tensor matmul(const Tensor &x, const Tensor &y, Location location = Location::current());
// x [.., in] times weight [out, in] transposed, plus bias, if defined, of [out] or of one number.
// Of a weight [in] the result has no dim of features.
Tensor linear(const Tensor &x, const Tensor &weight, const Tensor &bias = Tensor(),
              Location location = Location::current());

// --- Shape. Up to chunk these are views: they share the storage. ---
// x with the same elements in another shape, in row-major order. One size may be -1: what the
// others leave.
Tensor reshape(const Tensor &x, const Shape &shape, Location location = Location::current());
// The dims start_dim to end_dim, both included, as one.
Tensor flatten(const Tensor &x, int64_t start_dim = 0, int64_t end_dim = -1,
               Location location = Location::current());
// x without those of the dims (default: all) that have size 1.
Tensor squeeze(const Tensor &x, Dims dims = {}, Location location = Location::current());
// x with a dim of size 1 in front of dim; -1 appends it.
Tensor unsqueeze(const Tensor &x, int64_t dim, Location location = Location::current());
// x with its dims in another order: dim i of the result is dim permutation[i] of x.
Tensor permute(const Tensor &x, const Shape &permutation, Location location = Location::current());
// x with two dims exchanged.
Tensor transpose(const Tensor &x, int64_t dim0, int64_t dim1,
                 Location location = Location::current());
// x repeated to a shape by numpy's rule: dims of size 1, and new ones in front.
Tensor broadcast_to(const Tensor &x, const Shape &shape, Location location = Location::current());
// Parts of `size` slices along dim, the last one with what is left; or of the given sizes, which
// add up to that of dim.
std::vector<Tensor> split(const Tensor &x, int64_t size, int64_t dim = 0,
                          Location location = Location::current());
std::vector<Tensor> split(const Tensor &x, const Shape &sizes, int64_t dim = 0,
                          Location location = Location::current());
// Up to `chunks` parts along dim, of equal size but for the last; of a dim of size 0, that many.
std::vector<Tensor> chunk(const Tensor &x, int64_t chunks, int64_t dim = 0,
                          Location location = Location::current());
// `sections` parts along dim, the first of which have one slice more than the others where they do
// not come out even; or parts that end in front of these indices, and one with what is left. As
// bounds of slices, indices may be negative or beyond the end.
std::vector<Tensor> tensor_split(const Tensor &x, int64_t sections, int64_t dim = 0,
                                 Location location = Location::current());
std::vector<Tensor> tensor_split(const Tensor &x, const Shape &indices, int64_t dim = 0,
                                 Location location = Location::current());
// The tensors one after another along dim: the other sizes must be equal, dtypes promote. One of
// shape [0] adds nothing to any. A copy.
Tensor cat(const std::vector<Tensor> &tensors, int64_t dim = 0,
           Location location = Location::current());
// Tensors of one shape along a new dim; a copy.
Tensor stack(const std::vector<Tensor> &tensors, int64_t dim = 0,
             Location location = Location::current());
// x with its elements along dims in reverse order.
Tensor flip(const Tensor &x, Dims dims, Location location = Location::current());
// Each element (row, ...) along dim `repeats` times in a row; without dim, of the flattened tensor.
Tensor repeat_interleave(const Tensor &x, int64_t repeats, std::optional<int64_t> dim = {},
                         Location location = Location::current());
// The same with a number for each element along dim: counts is a vector of as many integers, or of
// one for all. Reads their sum now, since it is a size (unless output_size says it: then they must
// add up to it). Error: one is negative.
Tensor repeat_interleave(const Tensor &x, const Tensor &counts, std::optional<int64_t> dim = {},
                         std::optional<int64_t> output_size = {},
                         Location location = Location::current());
// The whole of x, repeats[i] times along dim i; repeats may have more entries than x has dims,
// which then get ones in front.
Tensor repeat(const Tensor &x, const Shape &repeats, Location location = Location::current());
// kConstant: `value` around x; kReflect: x mirrored without its border; kReplicate: the border
// again.
enum class PadMode { kConstant, kReflect, kReplicate };
// padding: {before, after} of the last dim, then of the one before it, ..., as PyTorch's. Negative
// numbers cut, with kConstant.
Tensor pad(const Tensor &x, const Shape &padding, PadMode mode = PadMode::kConstant,
           Scalar value = 0.0, Location location = Location::current());
// Elements on and below the given diagonal of the last two dims, 0 elsewhere.
Tensor tril(const Tensor &x, int64_t diagonal = 0, Location location = Location::current());
// Elements on and above the given diagonal of the last two dims, 0 elsewhere.
Tensor triu(const Tensor &x, int64_t diagonal = 0, Location location = Location::current());
// The positions that tril keeps of a matrix [rows, columns], in row-major order: int64 [2, count],
// their rows and their columns.
Tensor tril_indices(int64_t rows, int64_t columns, int64_t diagonal = 0,
                    Location location = Location::current());
// The positions that triu keeps, alike.
Tensor triu_indices(int64_t rows, int64_t columns, int64_t diagonal = 0,
                    Location location = Location::current());

// --- Indexing by tensors: int32 or int64; negative indices count from the end; one outside its
// dimension is an error of the run. ---

// x's slices at the indices along dim. indices: any shape; its dims stand in dim's place.
Tensor index_select(const Tensor &x, int64_t dim, const Tensor &indices,
                    Location location = Location::current());
// Rows of weight [n, d]: result [..indices, d].
Tensor embedding(const Tensor &indices, const Tensor &weight,
                 Location location = Location::current());
// PyTorch's gather: indices has x's rank; result[i][j] = x[indices[i][j]][j] for dim 0.
Tensor gather(const Tensor &x, int64_t dim, const Tensor &indices,
              Location location = Location::current());
// PyTorch's scatter_add: x with source[i][j] added to its element [indices[i][j]][j], for dim 0. Of
// a source larger than indices the first elements are taken. Of bools a sum is whether one is true.
Tensor scatter_add(const Tensor &x, int64_t dim, const Tensor &indices, const Tensor &source,
                   Location location = Location::current());
// PyTorch's scatter_reduce: as scatter_add, where what meets in an element becomes one by `reduce`:
// "sum", "prod", "mean", "amax" or "amin"; without include_self x's own element is left out, where
// others meet. Of the largest (smallest), all that are equal share the derivative (in PyTorch an
// element of x that is left out still counts); a mean of integers is rounded down. x and source: of
// one dtype.
Tensor scatter_reduce(const Tensor &x, int64_t dim, const Tensor &indices, const Tensor &source,
                      std::string_view reduce, bool include_self = true,
                      Location location = Location::current());
// The same for slices: source's slice i along dim goes to x's slice indices[i]; indices is a
// vector.
Tensor index_reduce(const Tensor &x, int64_t dim, const Tensor &indices, const Tensor &source,
                    std::string_view reduce, bool include_self = true,
                    Location location = Location::current());
// x after x.index_put_(indices, value, accumulate), as a new tensor.
Tensor index_put(const Tensor &x, std::initializer_list<Index> indices, TensorArg value,
                 bool accumulate = false, Location location = Location::current());
// The positions of the elements that are not 0, in row-major order: int64 [count, ndim]. Evaluates
// x now (cut reason `mask`).
Tensor nonzero(const Tensor &x, Location location = Location::current());
// nonzero() as index() takes it: a vector of positions for each dim. A tensor without dims is a
// vector of one element.
std::vector<Tensor> where(const Tensor &condition, Location location = Location::current());
// The elements where the mask (bool) holds, in row-major order, of x and mask broadcast to one
// shape: [count]. Evaluates the mask now (cut reason `mask`).
Tensor masked_select(const Tensor &x, const Tensor &mask, Location location = Location::current());
// 1 where classes are counted along the new last dim: indices [..] -> int64 [.., classes]. An index
// outside [0, classes) is an error of the run.
Tensor one_hot(const Tensor &indices, int64_t classes, Location location = Location::current());

// --- Composites ---
// exp(x) / sum(exp(x)) along dim, which does not overflow.
Tensor softmax(const Tensor &x, int64_t dim, Location location = Location::current());
// log(softmax(x)) along dim, without the rounding of the two in turn.
Tensor log_softmax(const Tensor &x, int64_t dim, Location location = Location::current());
// Over the last normalized_shape.size() dims; weight and bias of that shape, or undefined (Ba et
// al. 2016).
Tensor layer_norm(const Tensor &x, const Shape &normalized_shape, const Tensor &weight = Tensor(),
                  const Tensor &bias = Tensor(), double eps = 1e-5,
                  Location location = Location::current());

// Convolutions, pooling, normalization and resizing of images stand in weft/images.h.

// How attention() scores its keys.
struct AttentionOptions {
  bool causal = false;              // query i sees keys up to i + Tk - Tq
  std::optional<double> scale = {}; // default 1 / sqrt(D)
  // Heads of keys and values may serve several heads of queries (Ainslie et al. 2023; PyTorch's
  // enable_gqa): query [.., H, Tq, D], key [.., Hk, Tk, D], and query head h sees key head
  // h / (H / Hk). Values alike, with an Hk of their own.
  bool grouped = false;
  // Each weight is 0 with this probability, else divided by 1 - dropout. Of a model in training
  // alone: it is drawn at each call. Scores and weights [.., Tq, Tk] are in memory then.
  double dropout = 0;
  Generator *generator = nullptr; // that draws it; null: default_generator()
};
// softmax(scale * query key^T + mask) value (Vaswani et al. 2017). query [.., Tq, D], key [.., Tk,
// D], value [.., Tk, Dv] with leading dims that broadcast; mask, if defined, broadcasts to
// [.., Tq, Tk]: bool (false leaves out) or floating (added).
Tensor attention(const Tensor &query, const Tensor &key, const Tensor &value,
                 const Tensor &mask = Tensor(), AttentionOptions options = {},
                 Location location = Location::current());
// attention, under PyTorch's name.
Tensor scaled_dot_product_attention(const Tensor &query, const Tensor &key, const Tensor &value,
                                    const Tensor &mask = Tensor(), AttentionOptions options = {},
                                    Location location = Location::current());
// What a loss makes of its elements: their mean, their sum, or nothing (the elements themselves).
enum class Reduction { kMean, kSum, kNone };
// logits [.., C], targets [..] of class indices, or [.., C] of probabilities in the logits' dtype.
// kMean divides by the number of targets that are not ignore_index, which for probabilities must be
// negative: none is left out.
Tensor cross_entropy(const Tensor &logits, const Tensor &targets,
                     Reduction reduction = Reduction::kMean, int64_t ignore_index = -100,
                     Location location = Location::current());
// Negative log likelihood: log_probs [.., C], targets [..] of class indices. kMean divides by the
// number of targets that are not ignore_index; a target outside [0, C) is an error of the run.
Tensor nll_loss(const Tensor &log_probs, const Tensor &targets,
                Reduction reduction = Reduction::kMean, int64_t ignore_index = -100,
                Location location = Location::current());
// The losses below take input and target of one shape, elementwise, and reduce them.
// Binary cross entropy of sigmoid(input): (1 - y) x + w softplus(-x), where w = 1 + (pos_weight -
// 1) y; pos_weight broadcasts, 1 if undefined.
Tensor binary_cross_entropy_with_logits(const Tensor &input, const Tensor &target,
                                        Reduction reduction = Reduction::kMean,
                                        const Tensor &pos_weight = Tensor(),
                                        Location location = Location::current());
// |input - target|. Here, in the two below and in mse_loss other shapes broadcast, with a warning.
Tensor l1_loss(const Tensor &input, const Tensor &target, Reduction reduction = Reduction::kMean,
               Location location = Location::current());
// d^2 / 2 where |d| < delta, else delta (|d| - delta / 2), for d = input - target (Huber 1964).
Tensor huber_loss(const Tensor &input, const Tensor &target, double delta = 1,
                  Reduction reduction = Reduction::kMean, Location location = Location::current());
// The Huber loss over beta; for beta = 0, |d|.
Tensor smooth_l1_loss(const Tensor &input, const Tensor &target, double beta = 1,
                      Reduction reduction = Reduction::kMean,
                      Location location = Location::current());
// The divergence target (log(target) - input), where input, and with log_target target too, is in
// log space. PyTorch's `batchmean` is kSum over the batch size.
Tensor kl_div(const Tensor &input, const Tensor &target, Reduction reduction = Reduction::kMean,
              bool log_target = false, Location location = Location::current());
// (input - target)^2.
Tensor mse_loss(const Tensor &input, const Tensor &target, Reduction reduction = Reduction::kMean,
                Location location = Location::current());

} // namespace weft
