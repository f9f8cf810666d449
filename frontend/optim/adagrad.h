// Adagrad (Duchi, Hazan and Singer 2011).
#pragma once

#include "weft/optim/optimizer.h"

namespace weft::optim {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0; // added to the gradient, times the parameter
  double initial_accumulator = 0;
  double eps = 1e-10;
};

// PyTorch's Adagrad: g += weight_decay * p; s += g * g; p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps).
class Adagrad : public Optimizer {
public:
  // Throws Error for a negative option.
  Adagrad(std::vector<Tensor> parameters, AdagradOptions options = {}, Location location = Location::current());

protected:
  void begin_step() override;
  void end_step() override { rate_ = StepScalar(); }
  void update(size_t i, const Tensor &gradient) override;

private:
  AdagradOptions options_;
  Tensor step_; // with lr_decay only
  std::vector<Tensor> sum_;
  StepScalar rate_;
};

} // namespace weft::optim
