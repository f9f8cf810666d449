// Residual networks (He et al. 2016, "Deep Residual Learning for Image Recognition", table 1; in a
// bottleneck the 3 x 3 convolution has the stride, as torchvision's). Names are torchvision's.
#pragma once

#include <optional>

#include "weft/models/blocks.h"

namespace weft::models {

// How deep and how wide. Images go through a 7 x 7 convolution and max pooling, both with stride 2,
// before the first stage.
struct ResNetConfig {
  std::vector<int64_t> blocks = {2, 2, 2, 2}; // of each stage; a stage has twice the channels of
                                              // the one before and, but for the first, half the
                                              // pixels
  bool bottleneck = false; // blocks of three convolutions, with 4 times the stage's channels around
  int64_t width = 64;      // channels of the first stage
  int64_t channels = 3;    // of the images
  int64_t classes = 1000;

  static ResNetConfig resnet18(); // the defaults: 11.7 million parameters
  static ResNetConfig resnet34(); // 21.8 million parameters
  static ResNetConfig resnet50(); // with bottlenecks: 25.6 million parameters
};

// x plus two convolutions, or three of which the middle one is narrow; relu.
class ResidualBlock : public nn::Module {
public:
  // in, out: channels; width: of the 3 x 3 convolution of a bottleneck.
  ResidualBlock(int64_t in, int64_t width, int64_t out, int64_t stride, bool bottleneck,
                Location location = Location::current());

  // x: [N, in, H, W] -> [N, out, H', W'].
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

private:
  std::vector<nn::Conv2d> convolutions_;
  std::vector<nn::BatchNorm2d> norms_;
  std::optional<ConvNorm> downsample_; // where x has another shape than the sum
};

// images [N, channels, H, W], H and W at least 32 -> logits [N, classes].
class ResNet : public nn::Module {
public:
  // Throws Error when there is no stage, or a size is below 1.
  explicit ResNet(const ResNetConfig &config = {}, Location location = Location::current());

  Tensor operator()(const Tensor &images, Location location = Location::current()) const;
  // What the classifier sees, [N, C], C channels of the last stage.
  Tensor features(const Tensor &images, Location location = Location::current()) const;

private:
  nn::Conv2d conv1_;
  nn::BatchNorm2d bn1_;
  std::vector<nn::Sequential> stages_;
  nn::Linear fc_;
};

} // namespace weft::models
