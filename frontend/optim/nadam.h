// NAdam (Dozat 2016, "Incorporating Nesterov momentum into Adam").
#pragma once

#include <unordered_map>

#include "weft/optim/optimizer.h"

namespace weft::optim {

struct NAdamOptions {
  double lr = 2e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0; // added to the gradient, times the parameter
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false; // it shrinks the parameter instead, as AdamW's
  bool maximize = false;               // goes up the gradient
};

// PyTorch's NAdam: g += weight_decay * p, or decoupled p *= 1 - lr * weight_decay; mu(t) = beta1 *
// (1 - 0.96^(t * momentum_decay) / 2), M = mu(1) .. mu(t); m += (1 - beta1) * (g - m); v = beta2 *
// v + (1 - beta2) * g * g; p -= lr * ((1 - mu(t)) / (1 - M) * g + mu(t + 1) / (1 - M * mu(t + 1)) *
// m) / (sqrt(v / (1 - beta2^t)) + eps), where t counts the parameter's steps, this one included. M
// follows from t and is no state.
class NAdam : public Optimizer {
public:
  // Throws Error for a negative option, and unless 0 <= beta < 1.
  NAdam(std::vector<Tensor> parameters, NAdamOptions options = {},
        Location location = Location::current());

protected:
  void begin_step() override;
  void end_step() override {
    keep_ = StepScalar();
    shares_.clear();
  }
  void update(size_t i, const Tensor &gradient) override;

private:
  NAdamOptions options_;
  std::vector<Tensor> exp_avg_, exp_avg_sq_;
  Tensor terms_, powers_; // of the series of M, [its terms]
  // Of the step under way: 1 - lr * weight_decay; and, by count, the factors of g and m, and 1 /
  // sqrt(1 - beta2^t).
  struct Shares {
    StepScalar gradient, moment, scale;
  };
  const Shares &shares(size_t slot);
  StepScalar keep_;
  std::unordered_map<size_t, Shares> shares_;
};

} // namespace weft::optim
