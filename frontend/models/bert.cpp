#include "weft/models/bert.h"

#include "weft/models/registry.h"

namespace weft::models {
namespace {

constexpr double kDeviation = 0.02; // of all weights at the start
constexpr double kEps = 1e-12;      // of the layer norms

const BertConfig &checked(const BertConfig &config, Location location) {
  require(config.vocabulary >= 1 && config.positions >= 1 && config.kinds >= 1 &&
              config.size >= 1 && config.hidden >= 1 && config.layers >= 1 && config.heads >= 1,
          "Bert", "sizes must be at least 1", location);
  require(config.size % config.heads == 0, "Bert",
          "the size must be a multiple of the number of heads, they are " +
              std::to_string(config.size) + " and " + std::to_string(config.heads),
          location);
  return config;
}

nn::Linear dense(int64_t in, int64_t out, Location location) {
  return linear_normal(in, out, kDeviation, location);
}

} // namespace

BertConfig BertConfig::base() {
  return {};
}
BertConfig BertConfig::large() {
  return {.size = 1024, .hidden = 4096, .layers = 24, .heads = 16};
}

void visit_tensors(BertResult &result, TensorVisitor &visit) {
  visit(result.tokens);
  visit(result.pooled);
}

BertBlock::BertBlock(const BertConfig &config, Location location)
    : heads_(checked(config, location).heads), query_(dense(config.size, config.size, location)),
      key_(dense(config.size, config.size, location)),
      value_(dense(config.size, config.size, location)),
      dense_(dense(config.size, config.size, location)),
      intermediate_(dense(config.size, config.hidden, location)),
      output_(dense(config.hidden, config.size, location)),
      attention_norm_(config.size, {.eps = kEps}, location),
      output_norm_(config.size, {.eps = kEps}, location), dropout_(config.dropout, location) {
  Group attention, self, attention_output, intermediate, output;
  self.add("query", query_, location);
  self.add("key", key_, location);
  self.add("value", value_, location);
  attention_output.add("dense", dense_, location);
  attention_output.add("LayerNorm", attention_norm_, location);
  attention.add("self", self, location);
  attention.add("output", attention_output, location);
  intermediate.add("dense", intermediate_, location);
  output.add("dense", output_, location);
  output.add("LayerNorm", output_norm_, location);
  child("attention", attention, location);
  child("intermediate", intermediate, location);
  child("output", output, location);
  child("dropout", dropout_, location);
}

Tensor BertBlock::operator()(const Tensor &x, const Tensor &mask, Location location) const {
  nn::ModuleCall scope(*this, location);
  auto heads = [&](const Tensor &part) { // [N, T, size] -> [N, heads, T, size / heads]
    return part.reshape({x.size(0), x.size(1), heads_, x.size(2) / heads_}).transpose(1, 2);
  };
  Tensor seen = attention(heads(query_(x)), heads(key_(x)), heads(value_(x)), mask);
  Tensor y = attention_norm_(x + dropout_(dense_(seen.transpose(1, 2).reshape(x.shape()))));
  return output_norm_(y + dropout_(output_(gelu(intermediate_(y)))));
}

Bert::Bert(const BertConfig &config, Location location)
    : positions_(checked(config, location).positions),
      word_embeddings_(config.vocabulary, config.size, {.deviation = kDeviation, .padding_idx = 0},
                       location),
      position_embeddings_(config.positions, config.size, {.deviation = kDeviation}, location),
      token_type_embeddings_(config.kinds, config.size, {.deviation = kDeviation}, location),
      norm_(config.size, {.eps = kEps}, location), dropout_(config.dropout, location),
      pooler_(dense(config.size, config.size, location)) {
  Group embeddings, encoder, layer, pooler;
  embeddings.add("word_embeddings", word_embeddings_, location);
  embeddings.add("position_embeddings", position_embeddings_, location);
  embeddings.add("token_type_embeddings", token_type_embeddings_, location);
  embeddings.add("LayerNorm", norm_, location);
  child("embeddings", embeddings, location);
  child("dropout", dropout_, location);
  child("encoder", encoder, location);
  encoder.add("layer", layer, location);
  for (int64_t i = 0; i < config.layers; ++i)
    blocks_.push_back(layer.append(BertBlock(config, location), location));
  child("pooler", pooler, location);
  pooler.add("dense", pooler_, location);
}

BertResult Bert::operator()(const Tensor &ids, const Tensor &kinds, const Tensor &mask,
                            Location location) const {
  nn::ModuleCall scope(*this, location);
  if (ids.ndim() != 2 || ids.size(1) > positions_)
    fail_at(location, ErrorKind::kShape,
            "Bert: ids has shape " + to_string(ids.shape()) +
                "; it must be [batch, length], with a length of at most " +
                std::to_string(positions_));
  Tensor of_kind =
      kinds.defined() ? token_type_embeddings_(kinds) : token_type_embeddings_.weight[0];
  Tensor x = word_embeddings_(ids) + of_kind + position_embeddings_(arange(ids.size(1)));
  x = dropout_(norm_(x));
  Tensor seen = mask.defined() ? (mask != 0).unsqueeze(1).unsqueeze(1) : Tensor();
  for (const BertBlock &block : blocks_)
    x = block(x, seen);
  return {.tokens = x, .pooled = tanh(pooler_(x.select(1, 0)))};
}

namespace {
const Registration<Bert> bert_base({.name = "bert_base",
                                    .kind = "text encoder",
                                    .source = "Devlin et al. 2019, BERT: Pre-training of Deep "
                                              "Bidirectional Transformers for Language "
                                              "Understanding",
                                    .inputs = {{.sample = {64}, .count = 30522}}},
                                   BertConfig::base());
} // namespace

} // namespace weft::models
