// DenseNet with bottlenecks and compression (Huang et al. 2017, "Densely Connected Convolutional
// Networks", table 1). Names are torchvision's.
#pragma once

#include "weft/models/blocks.h"

namespace weft::models {

// How deep and how wide. Between two dense blocks a transition halves channels, rows and columns.
struct DenseNetConfig {
  std::vector<int64_t> layers = {6, 12, 24, 16}; // of each dense block
  int64_t growth = 32;                           // channels that a layer adds
  int64_t bottleneck = 4;                        // its 1 x 1 convolution has so many times these
  int64_t stem = 64;                             // channels of the first convolution
  int64_t channels = 3;                          // of the images
  int64_t classes = 1000;

  static DenseNetConfig densenet121(); // the defaults: 8.0 million parameters
  static DenseNetConfig densenet169(); // 14.1 million parameters
};

// norm, relu, 1 x 1 convolution; norm, relu, 3 x 3 convolution.
class DenseLayer : public nn::Module {
public:
  DenseLayer(int64_t in, int64_t growth, int64_t bottleneck,
             Location location = Location::current());

  // x: [N, in, H, W] -> [N, growth, H, W], what the layer adds to x.
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

private:
  nn::BatchNorm2d norm1_, norm2_;
  nn::Conv2d conv1_, conv2_;
};

// images [N, channels, H, W], H and W at least 32 -> logits [N, classes].
class DenseNet : public nn::Module {
public:
  // Throws Error when there is no dense block, or a size is below 1.
  explicit DenseNet(const DenseNetConfig &config = {}, Location location = Location::current());

  Tensor operator()(const Tensor &images, Location location = Location::current()) const;

private:
  // A dense block and, but for the last one, what halves its channels and pixels.
  struct Stage {
    std::vector<DenseLayer> layers;
    std::vector<nn::BatchNorm2d> norm; // one or none
    std::vector<nn::Conv2d> conv;
  };

  Group features_;
  nn::Conv2d conv0_;
  nn::BatchNorm2d norm0_;
  std::vector<Stage> stages_;
  std::vector<nn::BatchNorm2d> last_norm_; // one
  std::vector<nn::Linear> classifier_;     // one
};

} // namespace weft::models
