// Convolutions of images, [batch, channels, height, width].
#pragma once

#include "weft/images.h"
#include "weft/nn/module.h"

namespace weft::nn {

struct Conv2dOptions {
  Pair stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};

// weft::conv2d with a weight [out, in / groups, kernel..] and a bias [out], both uniform over +-1 /
// sqrt(in / groups * kernel's size) at the start, as in PyTorch.
class Conv2d : public Module {
public:
  // Throws Error when a size is below 1, or groups does not divide both channel counts.
  Conv2d(int64_t in, int64_t out, Pair kernel_size, Conv2dOptions options = {},
         Location location = Location::current());

  // With these values; bias may be undefined, whatever the options say. Throws Error unless they
  // are [out, in / groups, kernel..] and [out].
  Conv2d(Tensor weight, Tensor bias, Conv2dOptions options = {},
         Location location = Location::current());

  // x: [N, in, H, W] -> [N, out, H', W'].
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

  Parameter weight, bias; // bias: undefined when left out

private:
  Conv2dOptions options_;
};

struct ConvTranspose2dOptions {
  Pair stride = 1, padding = 0, output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
  Pair dilation = 1;
};

// weft::conv_transpose2d with a weight [in, out / groups, kernel..] and a bias [out], both uniform
// over +-1 / sqrt(out / groups * kernel's size) at the start, as in PyTorch.
class ConvTranspose2d : public Module {
public:
  // Throws Error when a size is below 1, or groups does not divide both channel counts.
  ConvTranspose2d(int64_t in, int64_t out, Pair kernel_size, ConvTranspose2dOptions options = {},
                  Location location = Location::current());

  // x: [N, in, H, W] -> [N, out, H', W'].
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

  Parameter weight, bias; // bias: undefined when left out

private:
  ConvTranspose2dOptions options_;
};

} // namespace weft::nn
