// Stochastic gradient descent.
#pragma once

#include <unordered_map>

#include "weft/optim/optimizer.h"

namespace weft::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0; // added to the gradient, times the parameter
  bool nesterov = false;
  bool maximize = false; // goes up the gradient
};

// PyTorch's SGD: g += weight_decay * p; b = momentum * b + (1 - dampening) * g (b = g in the
// parameter's first step); p -= lr * (g + momentum * b with nesterov, else b, else g without
// momentum).
class SGD : public Optimizer {
public:
  // Throws Error for a negative option, and for nesterov without momentum or with dampening.
  SGD(std::vector<Tensor> parameters, SGDOptions options = {},
      Location location = Location::current());

protected:
  void begin_step() override;
  void end_step() override {
    rate_ = StepScalar();
    blend_.clear();
  }
  void update(size_t i, const Tensor &gradient) override;

private:
  SGDOptions options_;
  std::vector<Tensor> momentum_;
  // Of the step under way: lr, and with dampening, by count, the share of a gradient that enters
  // the momentum.
  StepScalar rate_;
  std::unordered_map<size_t, StepScalar> blend_;
};

} // namespace weft::optim
