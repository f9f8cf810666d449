#include "weft/models/vit.h"

#include <cmath>

#include "weft/models/registry.h"

namespace weft::models {
namespace {

constexpr double kEps = 1e-6;               // of the layer norms
constexpr double kPositionDeviation = 0.02; // of the position table at the start
constexpr double kBiasDeviation = 1e-6;     // of the feed-forward branch's biases

const VitConfig &checked(const VitConfig &config, Location location) {
  require(config.patch >= 1 && config.image >= 1 && config.image % config.patch == 0,
          "VisionTransformer",
          "patch must divide image, they are " + std::to_string(config.patch) + " and " +
              std::to_string(config.image),
          location);
  require(config.layers >= 1 && config.size >= 1 && config.hidden >= 1 && config.classes >= 1 &&
              config.channels >= 1,
          "VisionTransformer", "sizes must be at least 1", location);
  return config;
}

int64_t patches_of(const VitConfig &config) {
  return (config.image / config.patch) * (config.image / config.patch);
}

nn::Conv2d patch_convolution(const VitConfig &config, Location location) {
  CallerScope scope(location);
  double inputs = static_cast<double>(config.channels * config.patch * config.patch);
  return nn::Conv2d(nn::init::normal({config.size, config.channels, config.patch, config.patch}, 0,
                                     1 / std::sqrt(inputs)),
                    nn::init::constant({config.size}, 0), {.stride = config.patch}, location);
}

nn::Linear zero_linear(int64_t in, int64_t out, Location location) {
  CallerScope scope(location);
  return nn::Linear(nn::init::constant({out, in}, 0), nn::init::constant({out}, 0), location);
}

nn::Linear mlp_linear(int64_t in, int64_t out, Location location) {
  CallerScope scope(location);
  return nn::Linear(nn::init::xavier_uniform({out, in}), nn::init::normal({out}, 0, kBiasDeviation),
                    location);
}

} // namespace

VitConfig VitConfig::b_16() {
  return {};
}

PackedAttention::PackedAttention(int64_t size, int64_t heads, Location location)
    : out_proj((require(size >= 1 && heads >= 1 && size % heads == 0, "PackedAttention",
                        "the size must be a multiple of the number of heads, they are " +
                            std::to_string(size) + " and " + std::to_string(heads),
                        location),
                nn::init::kaiming_uniform({size, size}, std::sqrt(5.0), location)),
               nn::init::constant({size}, 0, {}, location), location),
      heads_(heads) {
  CallerScope scope(location);
  in_proj_weight = parameter("in_proj_weight", nn::init::xavier_uniform({3 * size, size}));
  in_proj_bias = parameter("in_proj_bias", nn::init::constant({3 * size}, 0));
  child("out_proj", out_proj);
}

Tensor PackedAttention::operator()(const Tensor &x, Location location) const {
  nn::ModuleCall scope(*this, location);
  auto heads = [&](const Tensor &part) { // [N, T, size] -> [N, heads, T, size / heads]
    return part.reshape({x.size(0), x.size(1), heads_, x.size(2) / heads_}).transpose(1, 2);
  };
  std::vector<Tensor> parts = linear(x, in_proj_weight, in_proj_bias).chunk(3, -1);
  Tensor seen = attention(heads(parts[0]), heads(parts[1]), heads(parts[2]));
  return out_proj(seen.transpose(1, 2).reshape(x.shape()));
}

VitBlock::VitBlock(const VitConfig &config, Location location)
    : ln_1_(config.size, {.eps = kEps}, location), ln_2_(config.size, {.eps = kEps}, location),
      self_attention_(config.size, config.heads, location), dropout_(config.dropout, location) {
  CallerScope scope(location);
  mlp_.append(mlp_linear(config.size, config.hidden, location));
  mlp_.append(nn::GELU());
  mlp_.append(dropout_);
  mlp_.append(mlp_linear(config.hidden, config.size, location));
  mlp_.append(dropout_);
  child("ln_1", ln_1_);
  child("self_attention", self_attention_);
  child("dropout", dropout_);
  child("ln_2", ln_2_);
  child("mlp", mlp_);
}

Tensor VitBlock::operator()(const Tensor &x, Location location) const {
  nn::ModuleCall scope(*this, location);
  Tensor y = x + dropout_(self_attention_(ln_1_(x)));
  return y + mlp_(ln_2_(y));
}

VisionTransformer::VisionTransformer(const VitConfig &config, Location location)
    : config_(checked(config, location)), conv_proj_(patch_convolution(config, location)),
      dropout_(config.dropout, location), ln_(config.size, {.eps = kEps}, location),
      head_(zero_linear(config.size, config.classes, location)) {
  CallerScope scope(location);
  // parameter() is for a module's own: what belongs to `encoder` is registered there.
  struct Encoder : Group {
    nn::Parameter own(const std::string &name, Tensor value) {
      return parameter(name, std::move(value));
    }
  } encoder;
  Group layers, heads;
  class_token_ = parameter("class_token", nn::init::constant({1, 1, config.size}, 0));
  child("conv_proj", conv_proj_);
  child("encoder", encoder);
  pos_embedding_ =
      encoder.own("pos_embedding", nn::init::normal({1, 1 + patches_of(config), config.size}, 0,
                                                    kPositionDeviation));
  encoder.add("dropout", dropout_);
  encoder.add("layers", layers);
  for (int64_t i = 0; i < config.layers; ++i)
    blocks_.push_back(layers.add("encoder_layer_" + std::to_string(i), VitBlock(config, location)));
  encoder.add("ln", ln_);
  child("heads", heads);
  heads.add("head", head_);
}

Tensor VisionTransformer::operator()(const Tensor &images, Location location) const {
  nn::ModuleCall scope(*this, location);
  if (images.ndim() != 4 || images.size(2) != config_.image || images.size(3) != config_.image)
    fail_at(location, ErrorKind::kShape,
            "VisionTransformer: images has shape " + to_string(images.shape()) +
                "; it must be [batch, " + std::to_string(config_.channels) + ", " +
                std::to_string(config_.image) + ", " + std::to_string(config_.image) +
                "], as the position table is made for");
  Tensor x = conv_proj_(images).flatten(2).transpose(1, 2);
  Tensor first = broadcast_to(class_token_, {x.size(0), 1, x.size(2)});
  x = dropout_(cat({first, x}, 1) + pos_embedding_);
  for (const VitBlock &block : blocks_)
    x = block(x);
  return head_(ln_(x).select(1, 0));
}

namespace {
const Registration<VisionTransformer>
    vit_b_16({.name = "vit_b_16",
              .kind = "image classifier",
              .source = "Dosovitskiy et al. 2021, An Image is Worth 16x16 Words: Transformers for "
                        "Image Recognition at Scale",
              .inputs = image_input()},
             VitConfig::b_16());
} // namespace

} // namespace weft::models
