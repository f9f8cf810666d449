#include "weft/models/convnext.h"

#include "weft/models/registry.h"

namespace weft::models {
namespace {

constexpr double kDeviation = 0.02, kEps = 1e-6;
constexpr int64_t kPatch = 4, kExpansion = 4;

nn::Conv2d normal_convolution(int64_t in, int64_t out, int64_t kernel, nn::Conv2dOptions options) {
  return nn::Conv2d(nn::init::normal({out, in / options.groups, kernel, kernel}, 0, kDeviation),
                    nn::init::constant({out}, 0), options);
}

} // namespace

ConvNextConfig ConvNextConfig::tiny() {
  return {};
}

LayerNorm2d::LayerNorm2d(int64_t channels, Location location) {
  CallerScope scope(location);
  require(channels >= 1, "LayerNorm2d", "there must be at least 1 channel", location);
  weight = parameter("weight", nn::init::constant({channels}, 1));
  bias = parameter("bias", nn::init::constant({channels}, 0));
}

Tensor LayerNorm2d::operator()(const Tensor &x, Location location) const {
  nn::ModuleCall scope(*this, location);
  return layer_norm(x.permute({0, 2, 3, 1}), weight.shape(), weight, bias, kEps)
      .permute({0, 3, 1, 2});
}

ConvNextBlock::ConvNextBlock(int64_t channels, double scale, double drop_rate, Location location)
    : drop_(drop_rate, location) {
  CallerScope scope(location);
  require(channels >= 1, "ConvNextBlock", "there must be at least 1 channel", location);
  layer_scale = parameter("layer_scale", nn::init::constant({channels, 1, 1}, scale));
  block_.append(normal_convolution(channels, channels, 7, {.padding = 3, .groups = channels}));
  block_.append([](const Tensor &x) { return x.permute({0, 2, 3, 1}); });
  block_.append(nn::LayerNorm(channels, {.eps = kEps}));
  block_.append(linear_normal(channels, kExpansion * channels, kDeviation));
  block_.append(nn::GELU());
  block_.append(linear_normal(kExpansion * channels, channels, kDeviation));
  block_.append([](const Tensor &x) { return x.permute({0, 3, 1, 2}); });
  child("block", block_);
  child("stochastic_depth", drop_);
}

Tensor ConvNextBlock::operator()(const Tensor &x, Location location) const {
  nn::ModuleCall scope(*this, location);
  return x + drop_(layer_scale * block_(x));
}

ConvNext::ConvNext(const ConvNextConfig &config, Location location) {
  CallerScope scope(location);
  require(!config.blocks.empty() && config.blocks.size() == config.widths.size(), "ConvNext",
          "blocks and widths must be given for each stage, there are " +
              std::to_string(config.blocks.size()) + " and " + std::to_string(config.widths.size()),
          location);
  int64_t in = config.channels, total = 0, before = 0;
  for (int64_t count : config.blocks)
    total += count;
  for (size_t stage = 0; stage < config.blocks.size(); ++stage) {
    int64_t width = config.widths[stage];
    // Into patches at the beginning, then into half the rows and columns.
    if (stage == 0)
      features_.append(nn::Sequential(normal_convolution(in, width, kPatch, {.stride = kPatch}),
                                      LayerNorm2d(width)));
    else
      features_.append(
          nn::Sequential(LayerNorm2d(in), normal_convolution(in, width, 2, {.stride = 2})));
    nn::Sequential blocks;
    for (int64_t i = 0; i < config.blocks[stage]; ++i, ++before)
      blocks.append(ConvNextBlock(width, config.layer_scale,
                                  total > 1 ? config.drop_rate * static_cast<double>(before) /
                                                  static_cast<double>(total - 1)
                                            : 0));
    features_.append(blocks);
    in = width;
  }
  classifier_.append(LayerNorm2d(in));
  classifier_.append([](const Tensor &x) { return x.flatten(1); });
  classifier_.append(linear_normal(in, config.classes, kDeviation));
  child("features", features_);
  child("classifier", classifier_);
}

Tensor ConvNext::operator()(const Tensor &images, Location location) const {
  nn::ModuleCall scope(*this, location);
  return classifier_(features_(images).mean({2, 3}, true));
}

namespace {
const Registration<ConvNext> convnext_tiny({.name = "convnext_tiny",
                                            .kind = "image classifier",
                                            .source = "Liu et al. 2022, A ConvNet for the 2020s",
                                            .inputs = image_input()},
                                           ConvNextConfig::tiny());
} // namespace

} // namespace weft::models
