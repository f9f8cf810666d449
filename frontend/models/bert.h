// BERT (Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers for Language
// Understanding"). Names are those of Hugging Face's BertModel.
#pragma once

#include "weft/models/blocks.h"
#include "weft/tensor_tree.h"

namespace weft::models {

// What a BERT is made of. Hidden layers use the exact gelu; the norms' eps is 1e-12.
struct BertConfig {
  int64_t vocabulary = 30522;
  int64_t positions = 512; // the longest text
  int64_t kinds = 2;       // of tokens: those of the first sentence, those of the second
  int64_t size = 768;      // of a token's vector
  int64_t hidden = 3072;   // of the feed-forward branch
  int64_t layers = 12;
  int64_t heads = 12;
  double dropout = 0.1; // on embeddings and on what a branch adds; not on attention weights

  static BertConfig base();  // the defaults: 109 million parameters
  static BertConfig large(); // 335 million parameters
};

// What BERT gives: a vector for each token, and one for the text, made of its first token.
struct BertResult {
  Tensor tokens; // [N, T, size]
  Tensor pooled; // [N, size]
};
// For jit and trace.
void visit_tensors(BertResult &result, TensorVisitor &visit);

// A transformer block, normalized after each branch.
class BertBlock : public nn::Module {
public:
  explicit BertBlock(const BertConfig &config, Location location = Location::current());

  // x: [N, T, size] -> the same. mask: bool, broadcasts to [N, heads, T, T]; may be undefined.
  Tensor operator()(const Tensor &x, const Tensor &mask,
                    Location location = Location::current()) const;

private:
  int64_t heads_;
  nn::Linear query_, key_, value_, dense_, intermediate_, output_;
  nn::LayerNorm attention_norm_, output_norm_;
  nn::Dropout dropout_;
};

// ids [N, T] -> a vector of each token and one of each text. Weights start normal with deviation
// 0.02, biases as 0. Token 0 pads: its vector starts as 0 and gets no gradient, but only a mask
// keeps others from seeing it.
class Bert : public nn::Module {
public:
  // Throws Error when a size is below 1, or heads do not divide size.
  explicit Bert(const BertConfig &config = {}, Location location = Location::current());

  // ids: int64 [N, T], T at most `positions`; kinds: the same, of the tokens' kinds, 0 if
  // undefined; mask: [N, T], not 0 where a token counts, all if undefined.
  BertResult operator()(const Tensor &ids, const Tensor &kinds = Tensor(),
                        const Tensor &mask = Tensor(),
                        Location location = Location::current()) const;

private:
  int64_t positions_;
  nn::Embedding word_embeddings_, position_embeddings_, token_type_embeddings_;
  nn::LayerNorm norm_;
  nn::Dropout dropout_;
  std::vector<BertBlock> blocks_;
  nn::Linear pooler_;
};

} // namespace weft::models
