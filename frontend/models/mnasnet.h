// MNASNet-B1 (Tan et al. 2019, "MnasNet: Platform-Aware Neural Architecture Search for Mobile",
// figure 7). Names are torchvision's.
#pragma once

#include "weft/models/blocks.h"

namespace weft::models {

// Equal blocks; the first one has the stride.
struct MnasNetStage {
  int64_t channels, kernel_size, stride, expansion, blocks;
};

// The stages between a stem of 32 and 16 channels and a last convolution to 1280: scale applies to
// the stem and the stages, not to the last one. Batch norms have a momentum of 0.0003.
struct MnasNetConfig {
  std::vector<MnasNetStage> stages = {{24, 3, 2, 3, 3}, {40, 5, 2, 3, 3},  {80, 5, 2, 6, 3},
                                      {96, 3, 1, 6, 2}, {192, 5, 2, 6, 4}, {320, 3, 1, 6, 1}};
  double scale = 1; // of the channels, which are then rounded to multiples of 8
  double dropout = 0.2;
  int64_t channels = 3; // of the images
  int64_t classes = 1000;

  static MnasNetConfig mnasnet0_5(); // scale 0.5: 2.2 million parameters
  static MnasNetConfig mnasnet1_0(); // the defaults: 4.4 million parameters
};

// images [N, channels, H, W] -> logits [N, classes].
class MnasNet : public nn::Module {
public:
  // Throws Error unless scale is above 0, and where there is no stage.
  explicit MnasNet(const MnasNetConfig &config = {}, Location location = Location::current());

  Tensor operator()(const Tensor &images, Location location = Location::current()) const;

private:
  nn::Sequential layers_, classifier_;
};

} // namespace weft::models
