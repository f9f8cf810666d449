#include "weft/optim/lion.h"

#include "weft/ops.h"

namespace weft::optim {

Lion::Lion(std::vector<Tensor> parameters, LionOptions options, Location location)
    : Optimizer("Lion", std::move(parameters), options.lr, location), options_(options) {
  CallerScope scope(location);
  if (options.weight_decay < 0)
    throw Error(ErrorKind::kValue, "Lion: weight_decay must not be negative", location);
  want_betas("Lion", options.beta1, options.beta2, location);
  exp_avg_ = make_moments("exp_avg");
  finish_init(location);
}

void Lion::begin_step() {
  rate_ = StepScalar(lr_);
  keep_ = StepScalar(1.0 - lr_ * options_.weight_decay);
}

void Lion::update(size_t i, const Tensor &gradient) {
  Tensor &parameter = parameters_[i], &m = exp_avg_[i];
  DType dtype = parameter.dtype();
  Tensor direction = sign(m * options_.beta1 + gradient * (1 - options_.beta1));
  parameter.copy_(parameter * keep_.as(dtype) - direction * rate_.as(dtype));
  m.copy_(m * options_.beta2 + gradient * (1 - options_.beta2));
}

} // namespace weft::optim
