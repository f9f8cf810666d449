#include "weft/nn/transformer.h"

#include "weft/ops.h"

namespace weft::nn {

TransformerBlock::TransformerBlock(int64_t size, int64_t heads, TransformerBlockOptions options, Location location)
    : norm1(size, {}, location), norm2(size, {}, location), self_attn(size, heads, {.causal = options.causal}, location),
      linear1(size, options.hidden > 0 ? options.hidden : 4 * size, {}, location),
      linear2(options.hidden > 0 ? options.hidden : 4 * size, size, {}, location), dropout(options.dropout, location) {
  CallerScope scope(location);
  child("norm1", norm1);
  child("self_attn", self_attn);
  child("norm2", norm2);
  child("linear1", linear1);
  child("linear2", linear2);
  child("dropout", dropout);
}

Tensor TransformerBlock::operator()(const Tensor &x, const Tensor &mask, Location location) const {
  CallerScope scope(location);
  Tensor y = x + dropout(self_attn(norm1(x), mask));
  return y + dropout(linear2(gelu(linear1(norm2(y)))));
}

} // namespace weft::nn
