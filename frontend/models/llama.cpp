#include "weft/models/llama.h"

#include <cmath>
#include <numbers>

#include "weft/autocast.h"
#include "weft/models/registry.h"

namespace weft::models {
namespace {

constexpr double kDeviation = 0.02; // of all weights at the start

const LlamaConfig &checked(const LlamaConfig &config, Location location) {
  require(config.vocabulary >= 1 && config.size >= 1 && config.hidden >= 1 && config.layers >= 1 &&
              config.heads >= 1 && config.key_heads >= 1,
          "Llama", "sizes must be at least 1", location);
  require(config.size % config.heads == 0 && config.size / config.heads % 2 == 0 &&
              config.heads % config.key_heads == 0,
          "Llama",
          "the size must be an even multiple of heads, and heads a multiple of key_heads; they "
          "are " +
              std::to_string(config.size) + ", " + std::to_string(config.heads) + " and " +
              std::to_string(config.key_heads),
          location);
  if (const auto &scaling = config.rotary_scaling)
    require(scaling->factor > 0 && scaling->original > 0 && scaling->high > scaling->low, "Llama",
            "of rotary_scaling, factor and original must be above 0 and high above low", location);
  return config;
}

nn::Linear projection(int64_t in, int64_t out, Location location) {
  CallerScope scope(location);
  return nn::Linear(nn::init::normal({out, in}, 0, kDeviation), Tensor(), location);
}

int64_t key_size(const LlamaConfig &config) {
  return config.size / config.heads * config.key_heads;
}

} // namespace

LlamaConfig LlamaConfig::tinyllama() {
  return {.eps = 1e-5};
}

LlamaAttention::LlamaAttention(const LlamaConfig &config, Location location)
    : q_proj(projection(checked(config, location).size, config.size, location)),
      k_proj(projection(config.size, key_size(config), location)),
      v_proj(projection(config.size, key_size(config), location)),
      o_proj(projection(config.size, config.size, location)), heads_(config.heads),
      key_heads_(config.key_heads) {
  child("q_proj", q_proj, location);
  child("k_proj", k_proj, location);
  child("v_proj", v_proj, location);
  child("o_proj", o_proj, location);
}

LlamaAttention::Projected LlamaAttention::project(const Tensor &x, const Tensor &cosine,
                                                  const Tensor &sine) const {
  auto split = [&](const Tensor &part, int64_t heads) { // [N, heads, T, size of a head]
    return part.reshape({x.size(0), x.size(1), heads, x.size(2) / heads_}).transpose(1, 2);
  };
  return {rotate(split(q_proj(x), heads_), cosine, sine),
          rotate(split(k_proj(x), key_heads_), cosine, sine), split(v_proj(x), key_heads_)};
}

Tensor LlamaAttention::operator()(const Tensor &x, const Tensor &cosine, const Tensor &sine,
                                  Location location) const {
  nn::ModuleCall scope(*this, location);
  Projected p = project(x, cosine, sine);
  Tensor seen = attention(p.query, p.key, p.value, Tensor(),
                          {.causal = true, .scale = {}, .grouped = true});
  return o_proj(seen.transpose(1, 2).reshape(x.shape()));
}

Tensor LlamaAttention::operator()(const Tensor &x, const Tensor &cosine, const Tensor &sine,
                                  const nn::KeyValueCache &cache, int64_t layer,
                                  const nn::KeyValueCache::Places &places,
                                  Location location) const {
  nn::ModuleCall scope(*this, location);
  Projected p = project(x, cosine, sine);
  Tensor seen = cache.attend(layer, places, p.query, p.key, p.value);
  return o_proj(seen.transpose(1, 2).reshape(x.shape()));
}

LlamaBlock::LlamaBlock(const LlamaConfig &config, Location location)
    : self_attn_(config, location), gate_proj_(projection(config.size, config.hidden, location)),
      up_proj_(projection(config.size, config.hidden, location)),
      down_proj_(projection(config.hidden, config.size, location)),
      input_layernorm_(config.size, {.eps = config.eps}, location),
      post_attention_layernorm_(config.size, {.eps = config.eps}, location) {
  Group mlp;
  mlp.add("gate_proj", gate_proj_, location);
  mlp.add("up_proj", up_proj_, location);
  mlp.add("down_proj", down_proj_, location);
  child("self_attn", self_attn_, location);
  child("mlp", mlp, location);
  child("input_layernorm", input_layernorm_, location);
  child("post_attention_layernorm", post_attention_layernorm_, location);
}

Tensor LlamaBlock::add_feed_forward(const Tensor &x) const {
  Tensor z = post_attention_layernorm_(x);
  return x + down_proj_(silu(gate_proj_(z)) * up_proj_(z));
}

Tensor LlamaBlock::operator()(const Tensor &x, const Tensor &cosine, const Tensor &sine,
                              Location location) const {
  nn::ModuleCall scope(*this, location);
  return add_feed_forward(x + self_attn_(input_layernorm_(x), cosine, sine));
}

Tensor LlamaBlock::operator()(const Tensor &x, const Tensor &cosine, const Tensor &sine,
                              const nn::KeyValueCache &cache, int64_t layer,
                              const nn::KeyValueCache::Places &places, Location location) const {
  nn::ModuleCall scope(*this, location);
  return add_feed_forward(x + self_attn_(input_layernorm_(x), cosine, sine, cache, layer, places));
}

namespace {

// By how much the angles of these frequencies are slowed down.
Tensor scaled(const Tensor &frequency, const RotaryScaling &scaling) {
  // How often a wave fits into the texts that the model was trained on.
  Tensor waves = frequency * (scaling.original / (2 * std::numbers::pi));
  Tensor share = clamp((waves - scaling.low) / (scaling.high - scaling.low), 0.0, 1.0);
  return frequency * (share + (1.0 - share) / scaling.factor);
}

} // namespace

std::pair<Tensor, Tensor> rotary_angles(const Tensor &positions, int64_t size, double base,
                                        const std::optional<RotaryScaling> &scaling,
                                        Location location) {
  CallerScope scope(location);
  require(size >= 2 && size % 2 == 0 && base > 0, "rotary_angles",
          "the size must be even and base above 0, they are " + std::to_string(size) + " and " +
              std::to_string(base),
          location);
  Tensor frequency =
      exp(arange(size / 2, float32) * (-2 * std::log(base) / static_cast<double>(size)));
  if (scaling)
    frequency = scaled(frequency, *scaling);
  Tensor angles = positions.to(float32).unsqueeze(-1) * frequency;
  Tensor twice = cat({angles, angles}, -1);
  return {cos(twice), sin(twice)};
}

std::pair<Tensor, Tensor> rotary_angles(int64_t length, int64_t size, double base,
                                        Location location) {
  CallerScope scope(location);
  require(length >= 0, "rotary_angles",
          "the length must not be negative, it is " + std::to_string(length), location);
  return rotary_angles(arange(length), size, base);
}

Tensor rotate(const Tensor &x, const Tensor &cosine, const Tensor &sine, Location location) {
  CallerScope scope(location);
  std::vector<Tensor> halves = x.chunk(2, -1);
  return x * cosine.to(x.dtype()) + cat({-halves[1], halves[0]}, -1) * sine.to(x.dtype());
}

Llama::Llama(const LlamaConfig &config, Location location)
    : config_(checked(config, location)),
      embed_tokens_(config.vocabulary, config.size, {.deviation = kDeviation}, location),
      norm_(config.size, {.eps = config.eps}, location) {
  Group model, layers;
  child("model", model, location);
  model.add("embed_tokens", embed_tokens_, location);
  model.add("layers", layers, location);
  for (int64_t i = 0; i < config.layers; ++i)
    blocks_.push_back(layers.append(LlamaBlock(config, location), location));
  model.add("norm", norm_, location);
  if (!config.tied)
    head_ = child("lm_head", projection(config.size, config.vocabulary, location), location).weight;
}

Tensor Llama::features(const Tensor &ids, Location location) const {
  nn::ModuleCall scope(*this, location);
  if (ids.ndim() != 2)
    fail_at(location, ErrorKind::kShape,
            "Llama: ids has shape " + to_string(ids.shape()) + "; it must be [batch, length]");
  auto [cosine, sine] = rotary_angles(arange(ids.size(1)), config_.size / config_.heads,
                                      config_.rotary_base, config_.rotary_scaling);
  Tensor x = embed_tokens_(ids);
  for (const LlamaBlock &block : blocks_)
    x = block(x, cosine, sine);
  return norm_(x);
}

Tensor Llama::operator()(const Tensor &ids, Location location) const {
  nn::ModuleCall scope(*this, location);
  return linear(features(ids), head_.defined() ? head_ : embed_tokens_.weight);
}

nn::KeyValueCache Llama::make_cache(int64_t batch, int64_t capacity, Location location) const {
  CallerScope scope(location);
  return nn::KeyValueCache({.layers = config_.layers,
                            .batch = batch,
                            .heads = config_.key_heads,
                            .size = config_.size / config_.heads,
                            .capacity = capacity,
                            .dtype = autocast_dtype().value_or(embed_tokens_.weight.dtype())});
}

Tensor Llama::features(const Tensor &ids, const nn::KeyValueCache &cache, Location location) const {
  nn::ModuleCall scope(*this, location);
  check_next(ids, cache, "Llama", location);
  nn::KeyValueCache::Places places = cache.next(ids.size(1));
  // [N, 1, T, size of a head]: the same for all heads.
  auto [cosine, sine] = rotary_angles(places.positions.unsqueeze(1), config_.size / config_.heads,
                                      config_.rotary_base, config_.rotary_scaling);
  Tensor x = embed_tokens_(ids);
  for (size_t i = 0; i < blocks_.size(); ++i)
    x = blocks_[i](x, cosine, sine, cache, static_cast<int64_t>(i), places);
  return norm_(x);
}

Tensor Llama::operator()(const Tensor &ids, const nn::KeyValueCache &cache,
                         Location location) const {
  nn::ModuleCall scope(*this, location);
  return linear(features(ids, cache), head_.defined() ? head_ : embed_tokens_.weight);
}

namespace {
const Registration<Llama> tinyllama({.name = "tinyllama",
                                     .kind = "language model",
                                     .source = "Touvron et al. 2023, LLaMA: Open and Efficient "
                                               "Foundation Language Models; sizes: Zhang et al. "
                                               "2024, TinyLlama",
                                     .inputs = {{.sample = {64}, .count = 32000}}},
                                    LlamaConfig::tinyllama());
} // namespace

} // namespace weft::models
