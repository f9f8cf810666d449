#include "weft/optim/rmsprop.h"

#include "weft/ops.h"

namespace weft::optim {

RMSprop::RMSprop(std::vector<Tensor> parameters, RMSpropOptions options, Location location)
    : Optimizer("RMSprop", std::move(parameters), options.lr, location), options_(options) {
  CallerScope scope(location);
  if (options.eps < 0 || options.weight_decay < 0 || options.momentum < 0)
    throw Error(ErrorKind::kValue, "RMSprop: eps, weight_decay and momentum must not be negative",
                location);
  if (!(options.alpha >= 0 && options.alpha < 1))
    throw Error(ErrorKind::kValue,
                "RMSprop: alpha must be at least 0 and below 1, it is " +
                    std::to_string(options.alpha),
                location);
  maximize_ = options.maximize;
  square_avg_ = make_moments("square_avg");
  if (options.centered)
    grad_avg_ = make_moments("grad_avg");
  if (options.momentum != 0)
    momentum_ = make_moments("momentum_buffer");
  finish_init(location);
}

void RMSprop::update(size_t i, const Tensor &gradient) {
  Tensor &parameter = parameters_[i], &v = square_avg_[i];
  Tensor g = gradient;
  if (options_.weight_decay != 0)
    g = g + parameter * options_.weight_decay;
  v.copy_(v * options_.alpha + square(g) * (1 - options_.alpha));
  Tensor spread = v;
  if (options_.centered) {
    Tensor &mean = grad_avg_[i];
    mean.copy_(mean + (g - mean) * (1 - options_.alpha));
    spread = v - square(mean);
  }
  Tensor step = g / (sqrt(spread) + options_.eps);
  if (options_.momentum != 0) {
    momentum_[i].copy_(momentum_[i] * options_.momentum + step);
    step = momentum_[i];
  }
  parameter.sub_(step * rate_.as(parameter.dtype()));
}

} // namespace weft::optim
