#include "weft/optim/adagrad.h"

#include "weft/ops.h"

namespace weft::optim {

Adagrad::Adagrad(std::vector<Tensor> parameters, AdagradOptions options, Location location)
    : Optimizer("Adagrad", std::move(parameters), options.lr, location), options_(options) {
  CallerScope scope(location);
  if (options.lr_decay < 0 || options.weight_decay < 0 || options.initial_accumulator < 0 ||
      options.eps < 0)
    throw Error(ErrorKind::kValue,
                "Adagrad: lr_decay, weight_decay, initial_accumulator and eps must not be negative",
                location);
  maximize_ = options.maximize;
  if (options.lr_decay != 0)
    make_counts();
  sum_ = make_moments("sum", options.initial_accumulator);
  finish_init(location);
}

void Adagrad::update(size_t i, const Tensor &gradient) {
  Tensor &parameter = parameters_[i], &sum = sum_[i];
  Tensor g = gradient;
  if (options_.weight_decay != 0)
    g = g + parameter * options_.weight_decay;
  sum.add_(square(g));
  size_t slot = options_.lr_decay == 0 ? 0 : count_slot(i);
  auto [rate, made] = rate_.try_emplace(slot);
  if (made)
    rate->second = StepScalar(
        options_.lr_decay == 0 ? lr_ : lr_ / (1.0 + (count(slot) - 1.0) * options_.lr_decay));
  parameter.sub_(g / (sqrt(sum) + options_.eps) * rate->second.as(parameter.dtype()));
}

} // namespace weft::optim
