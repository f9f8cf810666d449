// SqueezeNet 1.0, and 1.1 with 2.4 times less work (Iandola et al. 2016, "SqueezeNet: AlexNet-level
// accuracy with 50x fewer parameters and <0.5MB model size"). Names are torchvision's.
#pragma once

#include "weft/models/blocks.h"

namespace weft::models {

// A stage of fire modules: what each squeezes to, and how many channels each half of its result
// has. Max pooling comes before it.
struct FireStage {
  std::vector<std::pair<int64_t, int64_t>> fires;
};

// The classifier is a 1 x 1 convolution with relu, whose pixels are averaged: no logit is negative.
struct SqueezeNetConfig {
  int64_t stem = 96, stem_kernel = 7; // the first convolution's channels and kernel
  std::vector<FireStage> stages = {{{{16, 64}, {16, 64}, {32, 128}}},
                                   {{{32, 128}, {48, 192}, {48, 192}, {64, 256}}},
                                   {{{64, 256}}}};
  double dropout = 0.5;
  int64_t channels = 3; // of the images
  int64_t classes = 1000;

  static SqueezeNetConfig squeezenet1_0(); // the defaults: 1.2 million parameters
  static SqueezeNetConfig squeezenet1_1(); // 1.2 million parameters, pooled earlier
};

// Few channels, and from them 1 x 1 and 3 x 3 convolutions side by side.
class Fire : public nn::Module {
public:
  // Throws Error when a size is below 1.
  Fire(int64_t in, int64_t squeezed, int64_t expanded, Location location = Location::current());

  // x: [N, in, H, W] -> [N, 2 expanded, H, W].
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

  nn::Conv2d squeeze, expand1x1, expand3x3;
};

// images [N, channels, H, W], H and W at least 21 -> logits [N, classes].
class SqueezeNet : public nn::Module {
public:
  // Throws Error when there is no stage, or a size is below 1.
  explicit SqueezeNet(const SqueezeNetConfig &config = {}, Location location = Location::current());

  Tensor operator()(const Tensor &images, Location location = Location::current()) const;

private:
  nn::Sequential features_, classifier_;
};

} // namespace weft::models
