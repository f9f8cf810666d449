#include "weft/models/resnet.h"

#include <algorithm>

#include "weft/models/registry.h"

namespace weft::models {
namespace {

constexpr int64_t kExpansion = 4; // of a bottleneck

const ResNetConfig &checked(const ResNetConfig &config, Location location) {
  require(!config.blocks.empty() && std::ranges::min(config.blocks) >= 1, "ResNet",
          "blocks are counted by stage, each at least 1", location);
  require(config.width >= 1 && config.channels >= 1 && config.classes >= 1, "ResNet",
          "width, channels and classes must be at least 1, they are " +
              std::to_string(config.width) + ", " + std::to_string(config.channels) + " and " +
              std::to_string(config.classes),
          location);
  return config;
}

int64_t channels_of(const ResNetConfig &config, size_t stage) {
  return (config.width << stage) * (config.bottleneck ? kExpansion : 1);
}

} // namespace

ResNetConfig ResNetConfig::resnet18() {
  return {};
}
ResNetConfig ResNetConfig::resnet34() {
  return {.blocks = {3, 4, 6, 3}};
}
ResNetConfig ResNetConfig::resnet50() {
  return {.blocks = {3, 4, 6, 3}, .bottleneck = true};
}

ResidualBlock::ResidualBlock(int64_t in, int64_t width, int64_t out, int64_t stride,
                             bool bottleneck, Location location) {
  auto add = [&](int64_t from, int64_t to, int64_t kernel, int64_t step) {
    std::string number = std::to_string(convolutions_.size() + 1);
    convolutions_.push_back(
        child("conv" + number,
              convolution(from, to, kernel, {.stride = step, .padding = kernel / 2, .bias = false},
                          location),
              location));
    norms_.push_back(child("bn" + number, batch_norm(to, 1e-5, 0.1, location), location));
  };
  if (bottleneck) {
    add(in, width, 1, 1);
    add(width, width, 3, stride);
    add(width, out, 1, 1);
  } else {
    add(in, out, 3, stride);
    add(out, out, 3, 1);
  }
  if (stride != 1 || in != out)
    downsample_ =
        child("downsample",
              ConvNorm(in, out, 1, {.stride = stride, .activation = Activation::kNone}, location),
              location);
}

Tensor ResidualBlock::operator()(const Tensor &x, Location location) const {
  nn::ModuleCall scope(*this, location);
  Tensor y = x;
  for (size_t i = 0; i < convolutions_.size(); ++i) {
    y = norms_[i](convolutions_[i](y));
    if (i + 1 < convolutions_.size())
      y = relu(y);
  }
  return relu(y + (downsample_ ? (*downsample_)(x) : x));
}

ResNet::ResNet(const ResNetConfig &config, Location location)
    : conv1_(convolution(checked(config, location).channels, config.width, 7,
                         {.stride = 2, .padding = 3, .bias = false}, location)),
      bn1_(batch_norm(config.width, 1e-5, 0.1, location)),
      fc_(channels_of(config, config.blocks.size() - 1), config.classes, {}, location) {
  child("conv1", conv1_, location);
  child("bn1", bn1_, location);
  int64_t in = config.width;
  for (size_t stage = 0; stage < config.blocks.size(); ++stage) {
    int64_t out = channels_of(config, stage);
    nn::Sequential blocks;
    for (int64_t i = 0; i < config.blocks[stage]; ++i, in = out)
      blocks.append(ResidualBlock(in, config.width << stage, out, stage > 0 && i == 0 ? 2 : 1,
                                  config.bottleneck, location),
                    location);
    stages_.push_back(child("layer" + std::to_string(stage + 1), blocks, location));
  }
  child("fc", fc_, location);
}

Tensor ResNet::features(const Tensor &images, Location location) const {
  nn::ModuleCall scope(*this, location);
  Tensor x = max_pool2d(relu(bn1_(conv1_(images))), 3, {.stride = 2, .padding = 1});
  for (const nn::Sequential &stage : stages_)
    x = stage(x);
  return pool_flat(x);
}

Tensor ResNet::operator()(const Tensor &images, Location location) const {
  nn::ModuleCall scope(*this, location);
  return fc_(features(images));
}

namespace {
Record classifier(const char *name) {
  return {.name = name,
          .kind = "image classifier",
          .source = "He et al. 2016, Deep Residual Learning for Image Recognition",
          .inputs = image_input()};
}
const Registration<ResNet> resnet18(classifier("resnet18"), ResNetConfig::resnet18());
const Registration<ResNet> resnet34(classifier("resnet34"), ResNetConfig::resnet34());
const Registration<ResNet> resnet50(classifier("resnet50"), ResNetConfig::resnet50());
} // namespace

} // namespace weft::models
