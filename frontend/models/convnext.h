// ConvNeXt (Liu et al. 2022, "A ConvNet for the 2020s"). Names are torchvision's.
#pragma once

#include "weft/models/blocks.h"

namespace weft::models {

// blocks and widths have one entry for each stage. The first stage sees patches of 4 x 4 pixels,
// each further one half the rows and columns of the one before.
struct ConvNextConfig {
  std::vector<int64_t> blocks = {3, 3, 9, 3};        // of each stage
  std::vector<int64_t> widths = {96, 192, 384, 768}; // its channels
  double drop_rate = 0.1;    // of the last block's branch in training; that of the first is 0
  double layer_scale = 1e-6; // what the scales of branches start as
  int64_t channels = 3;      // of the images
  int64_t classes = 1000;

  static ConvNextConfig tiny(); // the defaults: 28.6 million parameters
};

// A layer norm over the channels of images.
class LayerNorm2d : public nn::Module {
public:
  explicit LayerNorm2d(int64_t channels, Location location = Location::current());

  // x: [N, channels, H, W] -> the same.
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

  nn::Parameter weight, bias; // [channels]
};

// x plus a branch, scaled by channel: 7 x 7 convolution of each channel alone, layer norm, two
// linear layers with gelu between.
class ConvNextBlock : public nn::Module {
public:
  ConvNextBlock(int64_t channels, double layer_scale, double drop_rate,
                Location location = Location::current());

  // x: [N, channels, H, W] -> the same.
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

  nn::Parameter layer_scale; // [channels, 1, 1]

private:
  nn::Sequential block_;
  StochasticDepth drop_;
};

// images [N, channels, H, W], H and W at least 32 -> logits [N, classes].
class ConvNext : public nn::Module {
public:
  // Throws Error unless there is at least one stage, and a width for each.
  explicit ConvNext(const ConvNextConfig &config = {}, Location location = Location::current());

  Tensor operator()(const Tensor &images, Location location = Location::current()) const;

private:
  nn::Sequential features_, classifier_;
};

} // namespace weft::models
