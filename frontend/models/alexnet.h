// AlexNet in one column (Krizhevsky 2014, "One weird trick for parallelizing convolutional neural
// networks"; Krizhevsky et al. 2012). Names are torchvision's.
#pragma once

#include "weft/models/blocks.h"

namespace weft::models {

// Sizes of the classifier; those of the convolutions are fixed. The defaults have 61.1 million
// parameters.
struct AlexNetConfig {
  int64_t hidden = 4096; // of the classifier's two layers
  double dropout = 0.5;  // before each of these
  int64_t channels = 3;  // of the images
  int64_t classes = 1000;
};

// images [N, channels, H, W], H and W at least 63 -> logits [N, classes].
class AlexNet : public nn::Module {
public:
  explicit AlexNet(const AlexNetConfig &config = {}, Location location = Location::current());

  Tensor operator()(const Tensor &images, Location location = Location::current()) const;

private:
  nn::Sequential features_, classifier_;
};

} // namespace weft::models
