// U-Net with padding and batch norm (Ronneberger et al. 2015, "U-Net: Convolutional Networks for
// Biomedical Image Segmentation"). Names are those of PyTorch's most used one,
// github.com/milesial/Pytorch-UNet.
#pragma once

#include "weft/models/blocks.h"

namespace weft::models {

// How deep and how wide; transposed convolutions lead back to full size. The defaults have 31.0
// million parameters.
struct UNetConfig {
  int64_t channels = 3; // of the images
  int64_t classes = 2;
  int64_t width = 64; // channels at full size; half the rows and columns have twice as many
  int64_t depth = 4;  // how often they are halved, at most 20
};

// Twice: convolution, batch norm, relu.
class DoubleConv : public nn::Module {
public:
  DoubleConv(int64_t in, int64_t out, Location location = Location::current());

  // x: [N, in, H, W] -> [N, out, H, W].
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

private:
  nn::Sequential double_conv_;
};

// images [N, channels, H, W], H and W at least 2^depth -> logits of each pixel [N, classes, H, W].
class UNet : public nn::Module {
public:
  // Throws Error when a size is below 1.
  explicit UNet(const UNetConfig &config = {}, Location location = Location::current());

  Tensor operator()(const Tensor &images, Location location = Location::current()) const;

private:
  DoubleConv inc_;
  std::vector<DoubleConv> down_, up_;
  std::vector<nn::ConvTranspose2d> larger_;
  nn::Conv2d outc_;
};

} // namespace weft::models
