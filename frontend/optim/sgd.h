// Stochastic gradient descent.
#pragma once

#include "weft/optim/optimizer.h"

namespace weft::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0; // added to the gradient, times the parameter
  bool nesterov = false;
};

// PyTorch's SGD: g += weight_decay * p; b = momentum * b + (1 - dampening) * g (b = g in the first step); p -= lr * (g + momentum * b with
// nesterov, else b, else g without momentum).
class SGD : public Optimizer {
public:
  // Throws Error for a negative option, and for nesterov without momentum or with dampening.
  SGD(std::vector<Tensor> parameters, SGDOptions options = {}, Location location = Location::current());

protected:
  void begin_step() override;
  void end_step() override { rate_ = blend_ = StepScalar(); }
  void update(size_t i, const Tensor &gradient) override;

private:
  SGDOptions options_;
  Tensor step_; // with dampening only
  std::vector<Tensor> momentum_;
  StepScalar rate_, blend_; // lr, and the share of a gradient that enters the momentum, of the step under way
};

} // namespace weft::optim
