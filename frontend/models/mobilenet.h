// MobileNet V2 (Sandler et al. 2018, "MobileNetV2: Inverted Residuals and Linear Bottlenecks",
// table 2) and V3 (Howard et al. 2019, "Searching for MobileNetV3", tables 1 and 2). Names are
// torchvision's.
#pragma once

#include "weft/models/mobile_block.h"

namespace weft::models {

// Equal blocks of MobileNet V2; the first one has the stride.
struct MobileNetV2Stage {
  int64_t expansion, channels, blocks, stride;
};

// The defaults are torchvision's mobilenet_v2: 3.5 million parameters.
struct MobileNetV2Config {
  std::vector<MobileNetV2Stage> stages = {{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2},
                                          {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2},
                                          {6, 320, 1, 1}};
  int64_t stem = 32, last = 1280; // channels of the first and of the last convolution
  double dropout = 0.2;
  int64_t channels = 3; // of the images
  int64_t classes = 1000;
};

// images [N, channels, H, W] -> logits [N, classes].
class MobileNetV2 : public nn::Module {
public:
  // Throws Error when there is no stage, or a size is below 1.
  explicit MobileNetV2(const MobileNetV2Config &config = {},
                       Location location = Location::current());

  Tensor operator()(const Tensor &images, Location location = Location::current()) const;

private:
  nn::Sequential features_, classifier_;
};

// A block of MobileNet V3.
struct MobileNetV3Block {
  int64_t kernel_size, expanded, channels;
  bool gated; // squeeze and excitation to a quarter of the expanded channels
  Activation activation;
  int64_t stride;
};

// Start from large() or small(): without blocks there is no model. The last convolution has six
// times the last block's channels; batch norms have eps 1e-3 and momentum 0.01.
struct MobileNetV3Config {
  std::vector<MobileNetV3Block> blocks; // as large() and small() have them
  int64_t stem = 16;                    // channels of the first convolution
  int64_t last = 1280;                  // of the classifier's first layer
  double dropout = 0.2;
  int64_t channels = 3; // of the images
  int64_t classes = 1000;

  static MobileNetV3Config large(); // 5.5 million parameters
  static MobileNetV3Config small(); // 2.5 million parameters; last is 1024
};

// images [N, channels, H, W] -> logits [N, classes].
class MobileNetV3 : public nn::Module {
public:
  // Throws Error when there is no block, or a size is below 1.
  explicit MobileNetV3(const MobileNetV3Config &config = MobileNetV3Config::large(),
                       Location location = Location::current());

  Tensor operator()(const Tensor &images, Location location = Location::current()) const;

private:
  nn::Sequential features_, classifier_;
};

} // namespace weft::models
