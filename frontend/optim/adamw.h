// Adam with decoupled weight decay (Loshchilov and Hutter 2019).
#pragma once

#include "weft/optim/optimizer.h"

namespace weft::optim {

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
};

// PyTorch's AdamW: p *= 1 - lr * weight_decay; m += (1 - beta1) * (g - m); v = beta2 * v + (1 - beta2) * g * g;
// p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps). The step count t is one for all parameters.
class AdamW : public Optimizer {
public:
  // Throws Error for a negative option, and unless 0 <= beta < 1.
  AdamW(std::vector<Tensor> parameters, AdamWOptions options = {}, Location location = Location::current());

protected:
  void begin_step() override;
  void update(size_t i, const Tensor &gradient) override;

private:
  AdamWOptions options_;
  Tensor step_;
  std::vector<Tensor> exp_avg_, exp_avg_sq_;
  // Of the step under way: 1 - lr * weight_decay; lr / (1 - beta1^t); 1 / sqrt(1 - beta2^t).
  StepScalar keep_, rate_, scale_;
};

} // namespace weft::optim
