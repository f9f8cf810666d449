// Llama and its kind (Touvron et al. 2023, "LLaMA: Open and Efficient Foundation Language Models"):
// rotary positions (Su et al. 2021), RMS norm, SwiGLU (Shazeer 2020), grouped queries (Ainslie et
// al. 2023). Names are those of Hugging Face's LlamaForCausalLM.
#pragma once

#include "weft/models/blocks.h"

namespace weft::models {

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

  static LlamaConfig tinyllama(); // 1.1 billion parameters
};

// Causal self-attention with rotary positions and fewer keys than queries.
class LlamaAttention : public nn::Module {
public:
  // Throws Error unless key_heads divides heads, heads size, and a head's size is even.
  explicit LlamaAttention(const LlamaConfig &config, Location location = Location::current());

  // x: [N, T, size] -> the same. cosine, sine: [T, size / heads], of rotary_angles().
  Tensor operator()(const Tensor &x, const Tensor &cosine, const Tensor &sine,
                    Location location = Location::current()) const;

  nn::Linear q_proj, k_proj, v_proj, o_proj; // without biases

private:
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

private:
  LlamaAttention self_attn_;
  nn::Linear gate_proj_, up_proj_, down_proj_;
  nn::RMSNorm input_layernorm_, post_attention_layernorm_;
};

// The angles position * base^(-2 i / size) for i in [0, size / 2), twice side by side: their
// cosines and sines, [length, size].
std::pair<Tensor, Tensor> rotary_angles(int64_t length, int64_t size, double base,
                                        Location location = Location::current());
// x [.., T, size] with the pairs (x[i], x[i + size / 2]) turned by these angles, [T, size].
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

private:
  LlamaConfig config_;
  nn::Embedding embed_tokens_;
  std::vector<LlamaBlock> blocks_;
  nn::RMSNorm norm_;
  nn::Parameter head_; // undefined where it is the token table
};

} // namespace weft::models
