// Layer normalization (Ba et al. 2016).
#pragma once

#include "weft/nn/module.h"

namespace weft::nn {

struct LayerNormOptions {
  double eps = 1e-5;
  bool affine = true; // with weight (1 at the start) and bias (0)
};

// x: [.., shape..] -> the same, with mean 0 and variance 1 over the last dims, times weight plus
// bias.
class LayerNorm : public Module {
public:
  LayerNorm(Shape shape, LayerNormOptions options = {}, Location location = Location::current());
  LayerNorm(int64_t size, LayerNormOptions options = {}, Location location = Location::current())
      : LayerNorm(Shape{size}, options, location) {}

  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

  Parameter weight, bias; // [shape..]; undefined without affine

private:
  Shape shape_;
  double eps_;
};

} // namespace weft::nn
