// VGG (Simonyan and Zisserman 2015, "Very Deep Convolutional Networks for Large-Scale Image
// Recognition", table 1: A, D and E). Names are torchvision's.
#pragma once

#include "weft/models/blocks.h"

namespace weft::models {

// Images of other sizes are pooled to what the classifier sees, by their means.
struct VggConfig {
  // The channels of each stage's convolutions; a stage ends in max pooling.
  std::vector<std::vector<int64_t>> stages = {{64}, {128}, {256, 256}, {512, 512}, {512, 512}};
  bool batch_norm = false; // after each convolution, as torchvision's vgg11_bn
  int64_t pooled = 7;      // rows and columns that the classifier sees
  int64_t hidden = 4096;   // of the classifier's two layers
  double dropout = 0.5;    // after each of these
  int64_t channels = 3;    // of the images
  int64_t classes = 1000;

  static VggConfig vgg11(); // the defaults: 133 million parameters
  static VggConfig vgg16(); // 138 million parameters
  static VggConfig vgg19(); // 144 million parameters
};

// images [N, channels, H, W], H and W at least 2 to the number of stages -> logits [N, classes].
class Vgg : public nn::Module {
public:
  // Throws Error when there is no stage, a stage is empty, or a size is below 1.
  explicit Vgg(const VggConfig &config = {}, Location location = Location::current());

  Tensor operator()(const Tensor &images, Location location = Location::current()) const;

private:
  nn::Sequential features_, classifier_;
  int64_t pooled_;
};

} // namespace weft::models
