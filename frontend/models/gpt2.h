// GPT-2 (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners"). Names are
// those of Hugging Face's GPT2LMHeadModel: what save_pretrained() writes loads strictly.
#pragma once

#include "weft/models/blocks.h"

namespace weft::models {

// What a GPT-2 is made of. Hidden layers use gelu's approximation by tanh; the norms' eps is 1e-5.
struct Gpt2Config {
  int64_t vocabulary = 50257;
  int64_t positions = 1024; // the longest text
  int64_t size = 768;       // of a token's vector
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t hidden = 0;   // of the feed-forward branch; 0: four times the size
  double dropout = 0.1; // on embeddings and on what a branch adds; not on attention weights
  bool tied = true;     // the head is the token table; else lm_head.weight of its own

  static Gpt2Config gpt2();   // the defaults: 124 million parameters
  static Gpt2Config medium(); // 355 million parameters
  static Gpt2Config large();  // 774 million parameters
  static Gpt2Config xl();     // 1.6 billion parameters
};

// x W + b with a weight [in, out]: a linear layer as GPT-2's files have it.
class Conv1DLinear : public nn::Module {
public:
  // The weight starts normal with this deviation, the bias as 0. Throws Error when a size is below
  // 1.
  Conv1DLinear(int64_t in, int64_t out, double deviation, Location location = Location::current());

  // x: [.., in] -> [.., out].
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

  nn::Parameter weight, bias; // [in, out], [out]
};

// A causal transformer block, normalized before each branch.
class Gpt2Block : public nn::Module {
public:
  Gpt2Block(const Gpt2Config &config, Location location = Location::current());

  // x: [N, T, size] -> the same.
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;
  // The same behind what the cache has of this layer, which gets their keys and values.
  Tensor operator()(const Tensor &x, const nn::KeyValueCache &cache, int64_t layer,
                    const nn::KeyValueCache::Places &places,
                    Location location = Location::current()) const;

private:
  std::vector<Tensor> heads_of(const Tensor &x) const;
  Tensor add_branches(const Tensor &x, const Tensor &seen) const;

  int64_t heads_;
  nn::LayerNorm ln_1_, ln_2_;
  Group attn_, mlp_;
  Conv1DLinear c_attn_, c_attn_proj_, c_fc_, c_proj_;
  nn::Dropout dropout_;
};

// ids: int64 [N, T], T at most `positions` -> logits [N, T, vocabulary].
class Gpt2 : public nn::Module {
public:
  // Throws Error when a size is below 1, or heads do not divide size.
  explicit Gpt2(const Gpt2Config &config = {}, Location location = Location::current());

  Tensor operator()(const Tensor &ids, Location location = Location::current()) const;
  // Before the head: [N, T, size], normalized.
  Tensor features(const Tensor &ids, Location location = Location::current()) const;

  // An empty cache for this many texts of at most `capacity` tokens. Throws Error when these are
  // more than `positions`.
  nn::KeyValueCache make_cache(int64_t batch, int64_t capacity,
                               Location location = Location::current()) const;
  // Logits, [N, T, vocabulary], of tokens that go on where the cache's texts end: each sees those
  // and, of its own row, what stands before it. Their keys and values are added to the cache.
  Tensor operator()(const Tensor &ids, const nn::KeyValueCache &cache,
                    Location location = Location::current()) const;
  // Before the head, [N, T, size], of these tokens alone; their keys and values are added to the
  // cache as well. Throws Error (kShape) unless ids has a row for each text of the cache.
  Tensor features(const Tensor &ids, const nn::KeyValueCache &cache,
                  Location location = Location::current()) const;

private:
  Gpt2Config config_;
  Group transformer_, list_;
  nn::Embedding wte_, wpe_;
  nn::Dropout dropout_;
  std::vector<Gpt2Block> blocks_;
  nn::LayerNorm ln_f_;
  nn::Parameter head_; // undefined where it is the token table
};

} // namespace weft::models
