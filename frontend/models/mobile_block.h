// The inverted residual block of MobileNet V2 and V3 and of EfficientNet (Sandler et al. 2018).
#pragma once

#include "weft/models/blocks.h"

namespace weft::models {

struct MobileBlockOptions {
  int64_t kernel_size = 3, stride = 1;
  Activation activation = Activation::kReLU6;
  double eps = 1e-5, momentum = 0.1; // of the batch norms
  int64_t squeezed = 0;              // of the squeeze and excitation; 0: there is none
  Activation inner = Activation::kReLU;
  Gate gate = Gate::kSigmoid;
  double drop_rate = 0; // of the branch, by samples, in training
  // Names of MobileNet V2: child "conv", whose last convolution and batch norm stand in it; else
  // child "block" of ConvNorms.
  bool flat = false;
};

// To `expanded` channels, a convolution of each alone, a gate, and back to few; beside it x, where
// it has the result's shape.
class MobileBlock : public nn::Module {
public:
  MobileBlock(int64_t in, int64_t expanded, int64_t out, MobileBlockOptions options = {},
              Location location = Location::current());

  // x: [N, in, H, W] -> [N, out, H', W'].
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

private:
  nn::Sequential block_;
  StochasticDepth drop_;
  bool adds_;
};

} // namespace weft::models
