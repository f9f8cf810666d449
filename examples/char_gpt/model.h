// A character-level GPT: token and position embeddings, causal transformer blocks, a linear head.
#pragma once

#include "weft/nn/nn.h"

namespace char_gpt {

struct ModelSizes {
  int64_t vocabulary = 0;
  int64_t context = 128; // characters that a prediction can see
  int64_t width = 128;
  int64_t heads = 4;
  int64_t layers = 4;
  double dropout =
      0.1; // on the embeddings and on what each branch of a block adds; not on attention weights
  bool operator==(const ModelSizes &) const = default;
};

// ids: int64 [batch, length], length <= context -> logits [batch, length, vocabulary].
class CharGpt : public weft::nn::Module {
public:
  explicit CharGpt(const ModelSizes &sizes);

  weft::Tensor operator()(const weft::Tensor &ids) const;

  // Whether training keeps of each block what it begins with, and computes the rest again on the
  // way back: the same bits in less memory.
  void recompute_blocks(bool recompute) {
    recompute_ = recompute;
  }

  const ModelSizes &sizes() const {
    return sizes_;
  }

private:
  ModelSizes sizes_;
  bool recompute_ = false;
  weft::nn::Embedding tokens_, positions_;
  weft::nn::Dropout dropout_;
  std::vector<weft::nn::TransformerBlock> blocks_;
  weft::nn::LayerNorm norm_;
  weft::nn::Linear head_;
};

} // namespace char_gpt
