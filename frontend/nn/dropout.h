// Dropout (Srivastava et al. 2014).
#pragma once

#include "weft/nn/module.h"
#include "weft/random.h"

namespace weft::nn {

// In training, 0 with probability `rate`, else x / (1 - rate); x itself in evaluation. A rate of 1
// gives zeros.
class Dropout : public Module {
public:
  // Throws Error unless 0 <= rate <= 1.
  explicit Dropout(double rate, Location location = Location::current());

  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

private:
  double rate_;
};

} // namespace weft::nn
