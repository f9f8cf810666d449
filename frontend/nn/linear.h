// x W^T + b.
#pragma once

#include "weft/nn/module.h"

namespace weft::nn {

struct LinearOptions {
  bool bias = true;
};

// x: [.., in] -> [.., out]; weight: [out, in], bias: [out], both uniform over +-1 / sqrt(in) at the
// start, as in PyTorch.
class Linear : public Module {
public:
  // Throws Error when a size is below 1.
  Linear(int64_t in, int64_t out, LinearOptions options = {},
         Location location = Location::current());

  // With these values; bias may be undefined. Throws Error unless they are [out, in] and [out].
  explicit Linear(Tensor weight, Tensor bias = Tensor(), Location location = Location::current());

  // Throws Error when x's last dimension is not `in`.
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

  Parameter weight, bias; // bias: undefined when left out
};

} // namespace weft::nn
