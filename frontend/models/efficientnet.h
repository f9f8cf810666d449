// EfficientNet-B0 (Tan and Le 2019, "EfficientNet: Rethinking Model Scaling for Convolutional
// Neural Networks", table 1). Names are torchvision's.
#pragma once

#include "weft/models/mobile_block.h"

namespace weft::models {

// Equal blocks; the first one has the stride.
struct EfficientNetStage {
  int64_t expansion, kernel_size, stride, channels, blocks;
};

// Every block has squeeze and excitation, to a quarter of the channels that it gets. The sizes of
// larger EfficientNets have to be given as they are: nothing here scales them.
struct EfficientNetConfig {
  std::vector<EfficientNetStage> stages = {{1, 3, 1, 16, 1}, {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2},
                                           {6, 3, 2, 80, 3}, {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4},
                                           {6, 3, 1, 320, 1}};
  int64_t stem = 32;      // channels of the first convolution
  int64_t last = 1280;    // of the last one
  double drop_rate = 0.2; // of the last block's branch in training; that of the first is 0
  double dropout = 0.2;
  int64_t channels = 3; // of the images
  int64_t classes = 1000;

  static EfficientNetConfig b0(); // the defaults: 5.3 million parameters
};

// images [N, channels, H, W] -> logits [N, classes].
class EfficientNet : public nn::Module {
public:
  // Throws Error when there is no stage, or a size is below 1.
  explicit EfficientNet(const EfficientNetConfig &config = {},
                        Location location = Location::current());

  Tensor operator()(const Tensor &images, Location location = Location::current()) const;

private:
  nn::Sequential features_, classifier_;
};

} // namespace weft::models
