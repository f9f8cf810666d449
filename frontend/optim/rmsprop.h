// RMSprop (Hinton 2012, lecture 6e).
#pragma once

#include "weft/optim/optimizer.h"

namespace weft::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0; // added to the gradient, times the parameter
  double momentum = 0;
  bool centered = false; // divides by the standard deviation, not the root of the mean square
  bool maximize = false; // goes up the gradient
};

// PyTorch's RMSprop: g += weight_decay * p; v = alpha * v + (1 - alpha) * g * g; centered: a += (1
// - alpha) * (g - a), s = sqrt(v - a * a), else s = sqrt(v); d = g / (s + eps); with momentum b =
// momentum * b + d, p -= lr * b, else p -= lr * d.
class RMSprop : public Optimizer {
public:
  // Throws Error for a negative option, and unless alpha < 1.
  RMSprop(std::vector<Tensor> parameters, RMSpropOptions options = {},
          Location location = Location::current());

protected:
  void begin_step() override {
    rate_ = StepScalar(lr_);
  }
  void end_step() override {
    rate_ = StepScalar();
  }
  void update(size_t i, const Tensor &gradient) override;

private:
  RMSpropOptions options_;
  std::vector<Tensor> square_avg_, grad_avg_, momentum_;
  StepScalar rate_;
};

} // namespace weft::optim
