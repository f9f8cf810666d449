// RAdam (Liu et al. 2020, "On the variance of the adaptive learning rate and beyond").
#pragma once

#include <unordered_map>

#include "weft/optim/optimizer.h"

namespace weft::optim {

struct RAdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;             // added to the gradient, times the parameter
  bool decoupled_weight_decay = false; // it shrinks the parameter instead, as AdamW's
  bool maximize = false;               // goes up the gradient
};

// PyTorch's RAdam: g += weight_decay * p, or decoupled p *= 1 - lr * weight_decay; m += (1 - beta1)
// * (g - m); v = beta2 * v + (1 - beta2) * g * g; R = 2 / (1 - beta2) - 1, r = R - 2 * t * beta2^t
// / (1 - beta2^t); d = lr / (1 - beta1^t) * m; p -= d * sqrt((r - 4) * (r - 2) * R / ((R - 4) * (R
// - 2) * r)) * sqrt(1 - beta2^t) / (sqrt(v) + eps) where r > 5, else p -= d; t counts the
// parameter's steps, this one included.
class RAdam : public Optimizer {
public:
  // Throws Error for a negative option, and unless 0 <= beta < 1.
  RAdam(std::vector<Tensor> parameters, RAdamOptions options = {},
        Location location = Location::current());

protected:
  void begin_step() override;
  void end_step() override {
    keep_ = StepScalar();
    rates_.clear();
  }
  void update(size_t i, const Tensor &gradient) override;

private:
  RAdamOptions options_;
  std::vector<Tensor> exp_avg_, exp_avg_sq_;
  // Of the step under way: 1 - lr * weight_decay; and, by count, the factor of m, and that of m /
  // (sqrt(v) + eps), one of which is 0.
  struct Rates {
    StepScalar plain, adaptive;
  };
  const Rates &rates(size_t slot);
  StepScalar keep_;
  std::unordered_map<size_t, Rates> rates_;
};

} // namespace weft::optim
