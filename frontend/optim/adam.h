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
};

// PyTorch's Adam: g += weight_decay * p; m += (1 - beta1) * (g - m); v = beta2 * v + (1 - beta2) *
// g * g; p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps), where t counts the
// parameter's steps, this one included.
class Adam : public Optimizer {
public:
  // Throws Error for a negative option, and unless 0 <= beta < 1.
  Adam(std::vector<Tensor> parameters, AdamOptions options = {},
       Location location = Location::current());

protected:
  // decoupled: weight_decay shrinks the parameter instead, p *= 1 - lr * weight_decay.
  Adam(const char *name, std::vector<Tensor> parameters, AdamOptions options, bool decoupled,
       Location location);
  void begin_step() override;
  void end_step() override {
    keep_ = StepScalar();
    corrected_.clear();
  }
  void update(size_t i, const Tensor &gradient) override;

private:
  AdamOptions options_;
  bool decoupled_;
  std::vector<Tensor> exp_avg_, exp_avg_sq_;
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
