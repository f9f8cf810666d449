// Llama and its kind (Touvron et al. 2023, "LLaMA: Open and Efficient Foundation Language Models"):
// rotary positions (Su et al. 2021), RMS norm, SwiGLU (Shazeer 2020), grouped queries (Ainslie et
// al. 2023). Names are those of Hugging Face's LlamaForCausalLM.
#pragma once

#include <optional>
#include <utility>

#include "weft/models/blocks.h"

namespace weft::models {

// How Llama 3.1 slows down the angles of a model that was trained on shorter texts: those whose
// wavelength exceeds original / low by `factor`, those below original / high not, and between the
// two by a mean of both that goes from one to the other.
struct RotaryScaling {
  double factor = 8, low = 1, high = 4;
  double original = 8192; // tokens of the texts that it was trained on
};

// What a Llama is made of; the defaults are TinyLlama's but for eps. Texts may have any length.
struct LlamaConfig {
  int64_t vocabulary = 32000;
  int64_t size = 2048;   // of a token's vector
  int64_t hidden = 5632; // of the feed-forward branch
  int64_t layers = 22;
  int64_t heads = 32;
  int64_t key_heads = 4;      // of keys and values: each serves heads / key_heads queries
  double rotary_base = 10000; // of the angles' wavelengths
  double eps = 1e-6;          // of the norms; files say theirs (rms_norm_eps)
  bool tied = false;          // the head is the token table; else lm_head.weight of its own
  std::optional<RotaryScaling> rotary_scaling = {};

  static LlamaConfig tinyllama(); // 1.1 billion parameters; eps is 1e-5
};

// Causal self-attention with rotary positions and fewer keys than queries.
class LlamaAttention : public nn::Module {
public:
  // Throws Error unless key_heads divides heads, heads size, and a head's size is even.
  explicit LlamaAttention(const LlamaConfig &config, Location location = Location::current());

  // x: [N, T, size] -> the same. cosine, sine: [T, size / heads], of rotary_angles().
  Tensor operator()(const Tensor &x, const Tensor &cosine, const Tensor &sine,
                    Location location = Location::current()) const;
  // The same behind what the cache has of this layer, which gets these keys and values. cosine,
  // sine: [N, 1, T, size / heads], of the tokens' positions.
  Tensor operator()(const Tensor &x, const Tensor &cosine, const Tensor &sine,
                    const nn::KeyValueCache &cache, int64_t layer,
                    const nn::KeyValueCache::Places &places,
                    Location location = Location::current()) const;

  nn::Linear q_proj, k_proj, v_proj, o_proj; // without biases

private:
  struct Projected {
    Tensor query, key, value; // [N, heads or key_heads, T, size / heads]
  };
  Projected project(const Tensor &x, const Tensor &cosine, const Tensor &sine) const;

  int64_t heads_, key_heads_;
};

// A transformer block, normalized before each branch; its feed-forward branch is
// down(silu(gate(x)) * up(x)).
class LlamaBlock : public nn::Module {
public:
  explicit LlamaBlock(const LlamaConfig &config, Location location = Location::current());

  // As LlamaAttention's.
  Tensor operator()(const Tensor &x, const Tensor &cosine, const Tensor &sine,
                    Location location = Location::current()) const;
  Tensor operator()(const Tensor &x, const Tensor &cosine, const Tensor &sine,
                    const nn::KeyValueCache &cache, int64_t layer,
                    const nn::KeyValueCache::Places &places,
                    Location location = Location::current()) const;

private:
  Tensor add_feed_forward(const Tensor &x) const;

  LlamaAttention self_attn_;
  nn::Linear gate_proj_, up_proj_, down_proj_;
  nn::RMSNorm input_layernorm_, post_attention_layernorm_;
};

// The angles position * base^(-2 i / size) for i in [0, size / 2), twice side by side: their
// cosines and sines, [.., size] for positions [..] of integers. Throws Error unless size is even
// and base above 0.
std::pair<Tensor, Tensor> rotary_angles(const Tensor &positions, int64_t size, double base,
                                        const std::optional<RotaryScaling> &scaling = {},
                                        Location location = Location::current());
// Of the positions 0 to length - 1: [length, size].
std::pair<Tensor, Tensor> rotary_angles(int64_t length, int64_t size, double base,
                                        Location location = Location::current());
// x [.., T, size] with the pairs (x[i], x[i + size / 2]) turned by these angles, which broadcast.
Tensor rotate(const Tensor &x, const Tensor &cosine, const Tensor &sine,
              Location location = Location::current());

// ids: int64 [N, T] -> logits [N, T, vocabulary].
class Llama : public nn::Module {
public:
  // Throws Error when a size is below 1, and as LlamaAttention does.
  explicit Llama(const LlamaConfig &config = {}, Location location = Location::current());

  Tensor operator()(const Tensor &ids, Location location = Location::current()) const;
  // Before the head: [N, T, size], normalized.
  Tensor features(const Tensor &ids, Location location = Location::current()) const;

  // An empty cache for this many texts of at most `capacity` tokens.
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
  LlamaConfig config_;
  nn::Embedding embed_tokens_;
  std::vector<LlamaBlock> blocks_;
  nn::RMSNorm norm_;
  nn::Parameter head_; // undefined where it is the token table
};

} // namespace weft::models
