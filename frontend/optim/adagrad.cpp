#include "weft/optim/adagrad.h"

#include "weft/ops.h"

namespace weft::optim {

Adagrad::Adagrad(std::vector<Tensor> parameters, AdagradOptions options, Location location)
    : Optimizer("Adagrad", std::move(parameters), options.lr, location), options_(options) {
  CallerScope scope(location);
  if (options.lr_decay < 0 || options.weight_decay < 0 || options.initial_accumulator < 0 || options.eps < 0)
    throw Error(ErrorKind::kValue, "Adagrad: lr_decay, weight_decay, initial_accumulator and eps must not be negative", location);
  if (options.lr_decay != 0) step_ = make_scalar("step", 0);
  sum_ = make_moments("sum", options.initial_accumulator);
  finish_init(location);
}

void Adagrad::begin_step() {
  rate_ = StepScalar(options_.lr_decay == 0 ? lr_ : lr_ / (1.0 + step_ * options_.lr_decay));
  if (options_.lr_decay != 0) step_ += 1.0;
}

void Adagrad::update(size_t i, const Tensor &gradient) {
  Tensor &parameter = parameters_[i], &sum = sum_[i];
  Tensor g = gradient;
  if (options_.weight_decay != 0) g = g + parameter * options_.weight_decay;
  sum.add_(square(g));
  parameter.sub_(g / (sqrt(sum) + options_.eps) * rate_.as(parameter.dtype()));
}

} // namespace weft::optim
