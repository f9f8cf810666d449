// ShuffleNet V2 (Ma et al. 2018, "ShuffleNet V2: Practical Guidelines for Efficient CNN
// Architecture Design", table 5). Names are torchvision's.
#pragma once

#include "weft/models/blocks.h"

namespace weft::models {

// stage_channels begins with the stem's and ends with the last convolution's; those between are
// even, since a block works on halves.
struct ShuffleNetV2Config {
  std::vector<int64_t> blocks = {4, 8, 4};                         // of stages 2, 3 and 4
  std::vector<int64_t> stage_channels = {24, 116, 232, 464, 1024}; // of all five
  int64_t channels = 3;                                            // of the images
  int64_t classes = 1000;

  static ShuffleNetV2Config x0_5(); // 1.4 million parameters
  static ShuffleNetV2Config x1_0(); // the defaults: 2.3 million parameters
};

// Half of the channels pass by, the other half goes through three convolutions; then both are
// shuffled. With stride 2 both halves are made of all channels.
class ShuffleBlock : public nn::Module {
public:
  // Throws Error when out is odd, or at stride 1 differs from in.
  ShuffleBlock(int64_t in, int64_t out, int64_t stride, Location location = Location::current());

  // x: [N, in, H, W] -> [N, out, H', W'].
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

private:
  nn::Sequential branch1_, branch2_;
};

// images [N, channels, H, W], H and W at least 32 -> logits [N, classes].
class ShuffleNetV2 : public nn::Module {
public:
  // Throws Error unless there are two more stages with channels than with blocks.
  explicit ShuffleNetV2(const ShuffleNetV2Config &config = {},
                        Location location = Location::current());

  Tensor operator()(const Tensor &images, Location location = Location::current()) const;

private:
  nn::Sequential conv1_, conv5_;
  std::vector<nn::Sequential> stages_;
  std::vector<nn::Linear> fc_; // one
};

} // namespace weft::models
