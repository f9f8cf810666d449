// Lion (Chen et al. 2023, "Symbolic discovery of optimization algorithms", algorithm 2).
#pragma once

#include "weft/optim/optimizer.h"

namespace weft::optim {

struct LionOptions {
  double lr = 1e-4;
  double beta1 = 0.9, beta2 = 0.99;
  double weight_decay = 0; // decoupled
};

// p *= 1 - lr * weight_decay; p -= lr * sign(beta1 * m + (1 - beta1) * g); m = beta2 * m + (1 -
// beta2) * g.
class Lion : public Optimizer {
public:
  // Throws Error for a negative option, and unless 0 <= beta < 1.
  Lion(std::vector<Tensor> parameters, LionOptions options = {},
       Location location = Location::current());

protected:
  void begin_step() override;
  void end_step() override {
    rate_ = keep_ = StepScalar();
  }
  void update(size_t i, const Tensor &gradient) override;

private:
  LionOptions options_;
  std::vector<Tensor> exp_avg_;
  StepScalar rate_, keep_;
};

} // namespace weft::optim
