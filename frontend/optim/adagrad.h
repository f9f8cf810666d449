// Adagrad (Duchi, Hazan and Singer 2011).
#pragma once

#include <unordered_map>

#include "weft/optim/optimizer.h"

namespace weft::optim {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0; // added to the gradient, times the parameter
  double initial_accumulator = 0;
  double eps = 1e-10;
  bool maximize = false; // goes up the gradient
};

// PyTorch's Adagrad: g += weight_decay * p; s += g * g; p -= lr / (1 + (t - 1) * lr_decay) * g /
// (sqrt(s) + eps), where t counts the parameter's steps, this one included.
class Adagrad : public Optimizer {
public:
  // Throws Error for a negative option.
  Adagrad(std::vector<Tensor> parameters, AdagradOptions options = {},
          Location location = Location::current());

protected:
  void end_step() override {
    rate_.clear();
  }
  void update(size_t i, const Tensor &gradient) override;

private:
  AdagradOptions options_;
  std::vector<Tensor> sum_;
  std::unordered_map<size_t, StepScalar>
      rate_; // of the step under way, by count where there is an lr_decay
};

} // namespace weft::optim
