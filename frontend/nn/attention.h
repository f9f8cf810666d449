// Multi-head attention (Vaswani et al. 2017).
#pragma once

#include "weft/nn/linear.h"
#include "weft/nn/module.h"

namespace weft::nn {

struct MultiHeadAttentionOptions {
  bool causal = false; // query i sees keys up to i + Tk - Tq
  bool bias = true;
  double dropout = 0; // in training, on the weights of the keys
};

// Projects query, key and value to `heads` heads of size / heads, attends in each, and projects the
// result back. Initial values as PyTorch's MultiheadAttention: the three input projections together
// are Xavier-uniform, biases 0.
class MultiHeadAttention : public Module {
public:
  // Throws Error when size is no multiple of heads, or unless 0 <= dropout <= 1.
  MultiHeadAttention(int64_t size, int64_t heads, MultiHeadAttentionOptions options = {},
                     Location location = Location::current());

  // Self-attention: x [.., T, size] -> [.., T, size].
  Tensor operator()(const Tensor &x, const Tensor &mask = Tensor(),
                    Location location = Location::current()) const;
  // query [.., Tq, size], key and value [.., Tk, size] -> [.., Tq, size]. mask, if defined,
  // broadcasts to [.., heads, Tq, Tk]: bool (false leaves out) or floating (added).
  Tensor attend(const Tensor &query, const Tensor &key, const Tensor &value,
                const Tensor &mask = Tensor(), Location location = Location::current()) const;

  Linear q_proj, k_proj, v_proj, out_proj;

private:
  Tensor split_heads(const Tensor &x) const;

  int64_t size_, heads_;
  bool causal_;
  double dropout_;
};

} // namespace weft::nn
