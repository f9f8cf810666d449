#include "weft/nn/transformer.h"

#include "weft/ops.h"

namespace weft::nn {

TransformerBlock::TransformerBlock(int64_t size, int64_t heads, TransformerBlockOptions options,
                                   Location location)
    : norm1(size, {}, location), norm2(size, {}, location),
      self_attn(size, heads, {.causal = options.causal, .dropout = options.attention_dropout},
                location),
      linear1(size, options.hidden > 0 ? options.hidden : 4 * size, {}, location),
      linear2(options.hidden > 0 ? options.hidden : 4 * size, size, {}, location),
      dropout(options.dropout, location), norm_first_(options.norm_first), relu_(options.relu) {
  CallerScope scope(location);
  child("norm1", norm1);
  child("self_attn", self_attn);
  child("norm2", norm2);
  child("linear1", linear1);
  child("linear2", linear2);
  child("dropout", dropout);
}

Tensor TransformerBlock::operator()(const Tensor &x, const Tensor &mask, Location location) const {
  ModuleCall scope(*this, location);
  auto feed_forward = [&](const Tensor &y) {
    return dropout(linear2(relu_ ? relu(linear1(y)) : gelu(linear1(y))));
  };
  if (norm_first_) {
    Tensor y = x + dropout(self_attn(norm1(x), mask));
    return y + feed_forward(norm2(y));
  }
  Tensor y = norm1(x + dropout(self_attn(x, mask)));
  return norm2(y + feed_forward(y));
}

} // namespace weft::nn
