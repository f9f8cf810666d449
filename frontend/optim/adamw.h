// Adam with decoupled weight decay (Loshchilov and Hutter 2019).
#pragma once

#include "weft/optim/adam.h"

namespace weft::optim {

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  bool maximize = false; // goes up the gradient
};

// PyTorch's AdamW: p *= 1 - lr * weight_decay, then Adam's step without weight decay.
class AdamW : public Adam {
public:
  // Throws Error for a negative option, and unless 0 <= beta < 1.
  AdamW(std::vector<Tensor> parameters, AdamWOptions options = {},
        Location location = Location::current())
      : Adam("AdamW", std::move(parameters),
             {.lr = options.lr,
              .beta1 = options.beta1,
              .beta2 = options.beta2,
              .eps = options.eps,
              .weight_decay = options.weight_decay,
              .amsgrad = options.amsgrad,
              .maximize = options.maximize,
              .decoupled_weight_decay = true},
             location) {}
};

} // namespace weft::optim
