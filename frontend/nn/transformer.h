// A transformer block, normalized before each branch (Xiong et al. 2020) or after it (Vaswani et
// al. 2017).
#pragma once

#include "weft/nn/attention.h"
#include "weft/nn/dropout.h"
#include "weft/nn/layer_norm.h"
#include "weft/nn/linear.h"

namespace weft::nn {

struct TransformerBlockOptions {
  int64_t hidden = 0;  // of the feed-forward branch; 0: four times the size
  double dropout = 0;  // on what each branch adds
  double attention_dropout = 0; // on the weights of its keys
  bool causal = false; // no position sees a later one
  // As PyTorch's TransformerEncoderLayer is by default: x = norm1(x + ..), x = norm2(x + ..); a
  // relu for the gelu.
  bool norm_first = true;
  bool relu = false;
};

// x [.., T, size] -> [.., T, size]: x += dropout(self_attn(norm1(x))), x +=
// dropout(linear2(gelu(linear1(norm2(x))))). Dropout lies on what is added, and where
// attention_dropout says so in attention; not inside of the feed-forward branch, where PyTorch's
// layer has it too.
class TransformerBlock : public Module {
public:
  TransformerBlock(int64_t size, int64_t heads, TransformerBlockOptions options = {},
                   Location location = Location::current());

  // mask: as MultiHeadAttention's.
  Tensor operator()(const Tensor &x, const Tensor &mask = Tensor(),
                    Location location = Location::current()) const;

  LayerNorm norm1, norm2;
  MultiHeadAttention self_attn;
  Linear linear1, linear2;
  Dropout dropout;

private:
  bool norm_first_, relu_;
};

} // namespace weft::nn
