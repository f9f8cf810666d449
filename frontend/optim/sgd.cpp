#include "weft/optim/sgd.h"

#include "weft/ops.h"

namespace weft::optim {

SGD::SGD(std::vector<Tensor> parameters, SGDOptions options, Location location)
    : Optimizer("SGD", std::move(parameters), options.lr, location), options_(options) {
  CallerScope scope(location);
  if (options.momentum < 0 || options.weight_decay < 0)
    throw Error(ErrorKind::kValue,
                "SGD: momentum and weight_decay must not be negative, they are " +
                    std::to_string(options.momentum) + " and " +
                    std::to_string(options.weight_decay),
                location);
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0))
    throw Error(ErrorKind::kValue, "SGD: nesterov needs a momentum, and a dampening of 0",
                location);
  maximize_ = options.maximize;
  if (options.dampening != 0)
    make_counts();
  if (options.momentum != 0)
    momentum_ = make_moments("momentum_buffer");
  finish_init(location);
}

void SGD::begin_step() {
  rate_ = StepScalar(lr_);
}

void SGD::update(size_t i, const Tensor &gradient) {
  Tensor &parameter = parameters_[i];
  Tensor g = gradient;
  if (options_.weight_decay != 0)
    g = g + parameter * options_.weight_decay;
  if (options_.momentum != 0) {
    Tensor entering = g;
    if (options_.dampening != 0) {
      auto [blend, made] = blend_.try_emplace(count_slot(i));
      // The first gradient enters whole; as a value, so that the first step is the same program as
      // the others.
      if (made)
        blend->second =
            StepScalar(1.0 - (count(count_slot(i)) != 1.0).to(float64) * options_.dampening);
      entering = g * blend->second.as(g.dtype());
    }
    momentum_[i].copy_(momentum_[i] * options_.momentum + entering);
    g = options_.nesterov ? g + momentum_[i] * options_.momentum : momentum_[i];
  }
  parameter.sub_(g * rate_.as(g.dtype()));
}

} // namespace weft::optim
