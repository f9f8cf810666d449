// Adam (Kingma and Ba 2015), the base of AdamW.
#pragma once

#include <unordered_map>

#include "weft/optim/optimizer.h"

namespace weft::optim {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0; // added to the gradient, times the parameter
  bool amsgrad = false;
  bool maximize = false;               // goes up the gradient
  bool decoupled_weight_decay = false; // it shrinks the parameter instead, as AdamW's
};

// PyTorch's Adam: g += weight_decay * p; m += (1 - beta1) * (g - m); v = beta2 * v + (1 - beta2) *
// g * g; p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps), where t counts the
// parameter's steps, this one included. amsgrad: in place of v the largest that it was in each
// element (Reddi et al. 2018).
class Adam : public Optimizer {
public:
  // Throws Error for a negative option, and unless 0 <= beta < 1.
  Adam(std::vector<Tensor> parameters, AdamOptions options = {},
       Location location = Location::current());

protected:
  Adam(const char *name, std::vector<Tensor> parameters, AdamOptions options, Location location);
  void begin_step() override;
  void end_step() override {
    keep_ = StepScalar();
    corrected_.clear();
  }
  void update(size_t i, const Tensor &gradient) override;

private:
  AdamOptions options_;
  std::vector<Tensor> exp_avg_, exp_avg_sq_, max_exp_avg_sq_;
  // Of the step under way: 1 - lr * weight_decay; and, by count t, lr / (1 - beta1^t) and 1 /
  // sqrt(1 - beta2^t).
  struct Corrected {
    StepScalar rate, scale;
  };
  const Corrected &corrected(size_t slot);
  StepScalar keep_;
  std::unordered_map<size_t, Corrected> corrected_;
};

} // namespace weft::optim
