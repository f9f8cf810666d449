#include "weft/models/gpt2.h"

#include <cmath>

#include "weft/autocast.h"
#include "weft/models/registry.h"

namespace weft::models {
namespace {

constexpr double kDeviation = 0.02; // of all weights at the start

// What a branch adds starts smaller by the root of the number of branches.
double branch_deviation(const Gpt2Config &config) {
  return kDeviation / std::sqrt(2.0 * static_cast<double>(config.layers));
}

int64_t hidden_of(const Gpt2Config &config) {
  return config.hidden > 0 ? config.hidden : 4 * config.size;
}

const Gpt2Config &checked(const Gpt2Config &config, Location location) {
  require(config.vocabulary >= 1 && config.positions >= 1 && config.size >= 1 &&
              config.layers >= 1 && config.heads >= 1 && config.hidden >= 0,
          "Gpt2", "sizes must be at least 1", location);
  require(config.size % config.heads == 0, "Gpt2",
          "the size must be a multiple of the number of heads, they are " +
              std::to_string(config.size) + " and " + std::to_string(config.heads),
          location);
  return config;
}

} // namespace

Gpt2Config Gpt2Config::gpt2() {
  return {};
}
Gpt2Config Gpt2Config::medium() {
  return {.size = 1024, .layers = 24, .heads = 16};
}
Gpt2Config Gpt2Config::large() {
  return {.size = 1280, .layers = 36, .heads = 20};
}
Gpt2Config Gpt2Config::xl() {
  return {.size = 1600, .layers = 48, .heads = 25};
}

Conv1DLinear::Conv1DLinear(int64_t in, int64_t out, double deviation, Location location) {
  CallerScope scope(location);
  require(in >= 1 && out >= 1, "Conv1DLinear",
          "sizes must be at least 1, they are " + std::to_string(in) + " and " +
              std::to_string(out),
          location);
  weight = parameter("weight", nn::init::normal({in, out}, 0, deviation));
  bias = parameter("bias", nn::init::constant({out}, 0));
}

Tensor Conv1DLinear::operator()(const Tensor &x, Location location) const {
  nn::ModuleCall scope(*this, location);
  return matmul(x, weight) + bias;
}

Gpt2Block::Gpt2Block(const Gpt2Config &config, Location location)
    : heads_(config.heads), ln_1_(config.size, {}, location), ln_2_(config.size, {}, location),
      c_attn_(config.size, 3 * config.size, kDeviation, location),
      c_attn_proj_(config.size, config.size, branch_deviation(config), location),
      c_fc_(config.size, hidden_of(config), kDeviation, location),
      c_proj_(hidden_of(config), config.size, branch_deviation(config), location),
      dropout_(config.dropout, location) {
  child("ln_1", ln_1_, location);
  child("attn", attn_, location);
  attn_.add("c_attn", c_attn_, location);
  attn_.add("c_proj", c_attn_proj_, location);
  child("ln_2", ln_2_, location);
  child("mlp", mlp_, location);
  mlp_.add("c_fc", c_fc_, location);
  mlp_.add("c_proj", c_proj_, location);
  child("dropout", dropout_, location);
}

// Queries, keys and values: [N, heads, T, size / heads].
std::vector<Tensor> Gpt2Block::heads_of(const Tensor &x) const {
  std::vector<Tensor> parts = c_attn_(ln_1_(x)).chunk(3, -1);
  for (Tensor &part : parts)
    part = part.reshape({x.size(0), x.size(1), heads_, x.size(2) / heads_}).transpose(1, 2);
  return parts;
}

Tensor Gpt2Block::add_branches(const Tensor &x, const Tensor &seen) const {
  Tensor y = x + dropout_(c_attn_proj_(seen.transpose(1, 2).reshape(x.shape())));
  return y + dropout_(c_proj_(gelu(c_fc_(ln_2_(y)), "tanh")));
}

Tensor Gpt2Block::operator()(const Tensor &x, Location location) const {
  nn::ModuleCall scope(*this, location);
  std::vector<Tensor> parts = heads_of(x);
  return add_branches(
      x, attention(parts[0], parts[1], parts[2], Tensor(), {.causal = true, .scale = {}}));
}

Tensor Gpt2Block::operator()(const Tensor &x, const nn::KeyValueCache &cache, int64_t layer,
                             const nn::KeyValueCache::Places &places, Location location) const {
  nn::ModuleCall scope(*this, location);
  std::vector<Tensor> parts = heads_of(x);
  return add_branches(x, cache.attend(layer, places, parts[0], parts[1], parts[2]));
}

Gpt2::Gpt2(const Gpt2Config &config, Location location)
    : config_(checked(config, location)),
      wte_(config.vocabulary, config.size, {.deviation = kDeviation}, location),
      wpe_(config.positions, config.size, {.deviation = kDeviation}, location),
      dropout_(config.dropout, location), ln_f_(config.size, {}, location) {
  child("transformer", transformer_, location);
  transformer_.add("wte", wte_, location);
  transformer_.add("wpe", wpe_, location);
  transformer_.add("drop", dropout_, location);
  transformer_.add("h", list_, location);
  for (int64_t i = 0; i < config.layers; ++i)
    blocks_.push_back(list_.append(Gpt2Block(config, location), location));
  transformer_.add("ln_f", ln_f_, location);
  if (!config.tied) {
    nn::Linear head(nn::init::normal({config.vocabulary, config.size}, 0, kDeviation), Tensor(),
                    location);
    head_ = child("lm_head", head, location).weight;
  }
}

Tensor Gpt2::features(const Tensor &ids, Location location) const {
  nn::ModuleCall scope(*this, location);
  if (ids.ndim() != 2 || ids.size(1) > config_.positions)
    fail_at(location, ErrorKind::kShape,
            "Gpt2: ids has shape " + to_string(ids.shape()) +
                "; it must be [batch, length], with a length of at most " +
                std::to_string(config_.positions));
  Tensor x = dropout_(wte_(ids) + wpe_(arange(ids.size(1))));
  for (const Gpt2Block &block : blocks_)
    x = block(x);
  return ln_f_(x);
}

Tensor Gpt2::operator()(const Tensor &ids, Location location) const {
  nn::ModuleCall scope(*this, location);
  Tensor x = features(ids);
  return linear(x, head_.defined() ? head_ : wte_.weight);
}

nn::KeyValueCache Gpt2::make_cache(int64_t batch, int64_t capacity, Location location) const {
  CallerScope scope(location);
  require(capacity <= config_.positions, "Gpt2",
          "a text has at most " + std::to_string(config_.positions) + " tokens, a cache for " +
              std::to_string(capacity) + " is asked for",
          location);
  return nn::KeyValueCache({.layers = config_.layers,
                            .batch = batch,
                            .heads = config_.heads,
                            .size = config_.size / config_.heads,
                            .capacity = capacity,
                            .dtype = autocast_dtype().value_or(wte_.weight.dtype())});
}

Tensor Gpt2::features(const Tensor &ids, const nn::KeyValueCache &cache, Location location) const {
  nn::ModuleCall scope(*this, location);
  check_next(ids, cache, "Gpt2", location);
  nn::KeyValueCache::Places places = cache.next(ids.size(1));
  Tensor x = dropout_(wte_(ids) + wpe_(places.positions));
  for (size_t i = 0; i < blocks_.size(); ++i)
    x = blocks_[i](x, cache, static_cast<int64_t>(i), places);
  return ln_f_(x);
}

Tensor Gpt2::operator()(const Tensor &ids, const nn::KeyValueCache &cache,
                        Location location) const {
  nn::ModuleCall scope(*this, location);
  return linear(features(ids, cache), head_.defined() ? head_ : wte_.weight);
}

namespace {
const Registration<Gpt2> gpt2({.name = "gpt2",
                               .kind = "language model",
                               .source = "Radford et al. 2019, Language Models are Unsupervised "
                                         "Multitask Learners",
                               .inputs = {{.sample = {64}, .count = 50257}}},
                              Gpt2Config::gpt2());
} // namespace

} // namespace weft::models
