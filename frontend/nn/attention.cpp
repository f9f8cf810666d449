#include "weft/nn/attention.h"

#include <cmath>

#include "weft/nn/init.h"
#include "weft/ops.h"

namespace weft::nn {
namespace {

int64_t checked_size(int64_t size, int64_t heads, Location location) {
  if (size < 1 || heads < 1 || size % heads != 0)
    fail_at(location, ErrorKind::kValue,
            "MultiHeadAttention: the size must be a multiple of the number of heads, they are " +
                std::to_string(size) + " and " + std::to_string(heads));
  return size;
}

Linear projection(const Tensor &weight, bool bias, Location location) {
  return Linear(weight, bias ? init::constant({weight.size(0)}, 0, {}, location) : Tensor(),
                location);
}

// PyTorch draws the three input projections as one Xavier-uniform matrix [3 size, size]: fan-in
// size, fan-out 3 size.
Linear input_projection(int64_t size, bool bias, Location location) {
  return projection(
      init::uniform({size, size}, std::sqrt(6.0 / static_cast<double>(4 * size)), location), bias,
      location);
}

} // namespace

MultiHeadAttention::MultiHeadAttention(int64_t size, int64_t heads,
                                       MultiHeadAttentionOptions options, Location location)
    : q_proj(input_projection(checked_size(size, heads, location), options.bias, location)),
      k_proj(input_projection(size, options.bias, location)),
      v_proj(input_projection(size, options.bias, location)),
      out_proj(projection(init::kaiming_uniform({size, size}, std::sqrt(5.0), location),
                          options.bias, location)),
      size_(size), heads_(heads), causal_(options.causal), dropout_(options.dropout) {
  CallerScope scope(location);
  if (!(dropout_ >= 0 && dropout_ <= 1))
    fail_at(location, ErrorKind::kValue,
            "MultiHeadAttention: dropout is " + std::to_string(dropout_) +
                "; it must be in [0, 1]");
  child("q_proj", q_proj);
  child("k_proj", k_proj);
  child("v_proj", v_proj);
  child("out_proj", out_proj);
}

Tensor MultiHeadAttention::split_heads(const Tensor &x) const {
  Shape shape = x.shape();
  shape.back() = heads_;
  shape.push_back(size_ / heads_);
  return x.reshape(shape).transpose(-3, -2); // [.., heads, T, size / heads]
}

Tensor MultiHeadAttention::operator()(const Tensor &x, const Tensor &mask,
                                      Location location) const {
  return attend(x, x, x, mask, location);
}

Tensor MultiHeadAttention::attend(const Tensor &query, const Tensor &key, const Tensor &value,
                                  const Tensor &mask, Location location) const {
  ModuleCall scope(*this, location);
  for (const Tensor *x : {&query, &key, &value})
    if (x->ndim() < 2 || x->shape().back() != size_)
      fail_at(location, ErrorKind::kShape,
              "MultiHeadAttention: query, key and value must be [.., T, " + std::to_string(size_) +
                  "], one is " + to_string(x->shape()));
  Tensor attended =
      weft::attention(split_heads(q_proj(query)), split_heads(k_proj(key)),
                      split_heads(v_proj(value)), mask,
                      {.causal = causal_, .dropout = training(location) ? dropout_ : 0});
  return out_proj(attended.transpose(-3, -2).reshape(query.shape()));
}

} // namespace weft::nn
