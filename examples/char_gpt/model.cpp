#include "examples/char_gpt/model.h"

#include "weft/weft.h"

namespace char_gpt {
namespace nn = weft::nn;

// Embeddings start a tenth as large as PyTorch's default: against residual branches of a freshly
// made block, a unit normal embedding drowns what the blocks add, and training needs about a third
// more steps for the same loss.
constexpr double kEmbeddingDeviation = 0.1;

CharGpt::CharGpt(const ModelSizes &sizes)
    : sizes_(sizes), tokens_(child("tokens", nn::Embedding(sizes.vocabulary, sizes.width,
                                                           {.deviation = kEmbeddingDeviation}))),
      positions_(child("positions", nn::Embedding(sizes.context, sizes.width,
                                                  {.deviation = kEmbeddingDeviation}))),
      dropout_(child("dropout", nn::Dropout(sizes.dropout))), norm_(sizes.width),
      head_(sizes.width, sizes.vocabulary) {
  for (int64_t i = 0; i < sizes.layers; ++i)
    blocks_.push_back(child("block" + std::to_string(i),
                            nn::TransformerBlock(sizes.width, sizes.heads,
                                                 {.dropout = sizes.dropout, .causal = true})));
  child("norm", norm_);
  child("head", head_);
}

weft::Tensor CharGpt::operator()(const weft::Tensor &ids) const {
  weft::Tensor x = dropout_(tokens_(ids) + positions_.weight.narrow(0, 0, ids.size(1)));
  for (const nn::TransformerBlock &block : blocks_)
    x = recompute_ ? weft::checkpoint(block)(x) : block(x);
  return head_(norm_(x));
}

} // namespace char_gpt
