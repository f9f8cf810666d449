// Records one weft op each. Operands are already of fitting dtypes and shapes where the dialect
// asks for it (elementwise ops: equal types); what the op's own shape rule refuses is raised as
// weft::Error at the session's line.
#pragma once

#include <array>
#include <utility>

#include "frontend/recorder/recorder.h"
#include "runtime/collective/kinds.h"

namespace weft::recorder {

enum class Unary : uint8_t {
#define WEFT_UNARY(function, record, operands, doc) k##record,
#define WEFT_BINARY(function, record, operands, doc)
#include "weft/ops/elementwise.inc"
#undef WEFT_UNARY
#undef WEFT_BINARY
  kNot,
};
enum class Binary : uint8_t {
#define WEFT_UNARY(function, record, operands, doc)
#define WEFT_BINARY(function, record, operands, doc) k##record,
#include "weft/ops/elementwise.inc"
#undef WEFT_UNARY
#undef WEFT_BINARY
  kDiv,
  kRem,
  kAtan2,
  kAnd,
  kOr,
  kXor,
  kShiftLeft,
  kShiftRight,
};
enum class Comparison : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe };
enum class ReduceKind : uint8_t { kSum, kMax, kMin, kProd, kMean };

// The operands that the op's record marks `specialize`, a bit each.
uint32_t specialized_operands(Binary op);

Var emit_unary(Unary op, const Var &x);
Var emit_gelu(const Var &x, bool tanh_approximation);
Var emit_binary(Binary op, const Var &x, const Var &y);
Var emit_compare(Comparison comparison, const Var &x, const Var &y);
// A comparison by which a function that is linear in pieces chooses one: with a flat history
// (below), so that its derivative depends on x, as that of relu does.
Var emit_mask(Comparison comparison, const Var &x, const Var &y);
Var emit_select(const Var &condition, const Var &x, const Var &y);
Var emit_cast(const Var &x, DType dtype);
Var emit_transfer(const Var &x, uint8_t device);
// x there: a number is made anew, everything else is moved.
Var on_device(Var x, uint8_t device);
// Fails with what and where both are, which lie on two devices.
[[noreturn]] void refuse_devices(const std::string &first, const Var &x, const std::string &second,
                                 const Var &y);
// What ranks exchange: `group` is the name that CollectiveRunner knows (exchange.h).
// `operand` is what ranks compare instead of the operand's shape, where it says more.
struct RankGroup {
  std::string group;
  int64_t rank = 0, ranks = 1;
  std::string operand = "";
};
Var emit_all_reduce(const Var &x, runtime::Reduction reduction, const RankGroup &group);
Var emit_all_gather(const Var &x, const RankGroup &group);
Var emit_reduce_scatter(const Var &x, runtime::Reduction reduction, const RankGroup &group);
Var emit_all_to_all(const Var &x, const RankGroup &group);
// To and from ranks of the group, or -1 (none).
Var emit_send_receive(const Var &x, int64_t to, int64_t from, const RankGroup &group);
Var emit_broadcast_from(const Var &x, int64_t root, const RankGroup &group);
Var emit_iota(DType dtype, const Shape &shape, int64_t dim);
Var emit_reshape(const Var &x, const Shape &shape);
// x's value with a history that begins here and leads to x's, as that of a copy does: nothing is
// computed. Without history where none is kept.
Var with_own_history(const Var &x);
// x's value with a history that begins here and leads to those of `of`, by derivatives of 0:
// nothing is computed. x itself where none of them has a history, or none is kept.
Var with_flat_history(const Var &x, std::span<const Var *const> of);
Var emit_transpose(const Var &x, std::span<const int64_t> permutation);
Var emit_broadcast(const Var &x, const Shape &shape);
Var emit_slice(const Var &x, std::span<const int64_t> starts, std::span<const int64_t> limits,
               std::span<const int64_t> steps);
Var emit_insert_slice(const Var &base, const Var &update, std::span<const int64_t> starts,
                      std::span<const int64_t> steps);
Var emit_concat(std::span<const Var> inputs, int64_t dim);
Var emit_reduce(ReduceKind kind, const Var &x, std::span<const int64_t> dims);
// largest: arg_max, else arg_min.
Var emit_arg(const Var &x, int64_t dim, bool largest);
// The first `count` indices of the order along dim, or all.
Var emit_arg_sort(const Var &x, int64_t dim, bool descending, std::optional<int64_t> count);
Var emit_cumsum(const Var &x, int64_t dim);
Var emit_cumprod(const Var &x, int64_t dim);
Var emit_recurrence(const Var &factor, const Var &x, int64_t dim);
Var emit_cum_arg(const Var &x, int64_t dim, bool largest);
Var emit_matmul(const Var &x, const Var &y, bool transpose_x, bool transpose_y);
// Where an index is out of range the run ends with an error that names the call that records the
// op, or `user`, which is the whole message where it has a space.
Var emit_index_select(const Var &x, const Var &indices, int64_t dim, const char *user = "");
// accumulate: index_add, else index_put.
Var emit_index_write(const Var &base, const Var &indices, const Var &source, int64_t dim,
                     bool accumulate, const char *user = "");
Var emit_gather(const Var &x, const Var &indices, int64_t dim);
Var emit_scatter_add(const Var &base, const Var &indices, const Var &source, int64_t dim);
enum class Combiner : uint8_t { kProd, kMax, kMin }; // as the record weft.scatter_reduce has them
Var emit_scatter_reduce(Combiner combiner, const Var &base, const Var &indices, const Var &source,
                        int64_t dim);
Var emit_random_uniform(const Var &state, DType dtype, const Shape &shape);
Var emit_random_normal(const Var &state, DType dtype, const Shape &shape);
Var emit_random_advance(const Var &state, int64_t blocks);
Var emit_softmax(const Var &x, int64_t dim);
Var emit_log_softmax(const Var &x, int64_t dim);
Var emit_layer_norm(const Var &x, const Var &weight, const Var &bias, int64_t normalized_rank,
                    double eps);
// Convolutions and pooling of images: each pair is for height and width.
using IntPair = std::array<int64_t, 2>;
struct ConvolutionGeometry {
  IntPair strides, padding, dilation;
  int64_t groups;
};
Var emit_conv2d(const Var &x, const Var &weight, const ConvolutionGeometry &geometry);
Var emit_conv2d_input_gradient(const Var &gradient, const Var &weight, const Shape &result,
                               const ConvolutionGeometry &geometry);
// The maxima and their indices.
std::pair<Var, Var> emit_max_pool2d(const Var &x, IntPair kernel, IntPair strides, IntPair padding,
                                    IntPair dilation, bool ceil_mode);
Var emit_avg_pool2d(const Var &x, IntPair kernel, IntPair strides, IntPair padding, bool ceil_mode,
                    bool count_include_pad);
struct BatchNormResults {
  Var result, mean, variance;
};
BatchNormResults emit_batch_norm(const Var &x, const Var &weight, const Var &bias, double eps);
// With given statistics; weight and bias may be null.
Var emit_batch_norm_inference(const Var &x, const Var &mean, const Var &variance, const Var &weight,
                              const Var &bias, double eps);
Var emit_attention(const Var &query, const Var &key, const Var &value, const Var &mask, bool causal,
                   double scale);
// The indices; the run ends with an error that names `user` ("weft.one_hot") unless each is in [0,
// size) or ignore_index.
Var emit_check_index(const Var &indices, int64_t size, std::optional<int64_t> ignore_index,
                     const char *user);
Var emit_cross_entropy(const Var &logits, const Var &targets, int64_t ignore_index);
Var emit_dropout(const Var &x, const Var &state, double rate);
// A scalar that is part of the program.
Var emit_constant(Scalar scalar, DType dtype);

} // namespace weft::recorder
