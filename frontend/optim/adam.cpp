#include "weft/optim/adam.h"

#include "weft/ops.h"

namespace weft::optim {

Adam::Adam(std::vector<Tensor> parameters, AdamOptions options, Location location)
    : Adam("Adam", std::move(parameters), options, location) {}

Adam::Adam(const char *name, std::vector<Tensor> parameters, AdamOptions options, Location location)
    : Optimizer(name, std::move(parameters), options.lr, location), options_(options) {
  CallerScope scope(location);
  if (options.eps < 0 || options.weight_decay < 0)
    throw Error(ErrorKind::kValue,
                std::string(name) + ": eps and weight_decay must not be negative", location);
  want_betas(name, options.beta1, options.beta2, location);
  maximize_ = options.maximize;
  make_counts();
  exp_avg_ = make_moments("exp_avg");
  exp_avg_sq_ = make_moments("exp_avg_sq");
  if (options.amsgrad)
    max_exp_avg_sq_ = make_moments("max_exp_avg_sq");
  finish_init(location);
}

void Adam::begin_step() {
  if (options_.decoupled_weight_decay)
    keep_ = StepScalar(1.0 - lr_ * options_.weight_decay);
}

const Adam::Corrected &Adam::corrected(size_t slot) {
  auto [entry, made] = corrected_.try_emplace(slot);
  if (!made)
    return entry->second;
  entry->second = {StepScalar(lr_ / correction(slot, options_.beta1)),
                   StepScalar(1.0 / sqrt(correction(slot, options_.beta2)))};
  return entry->second;
}

void Adam::update(size_t i, const Tensor &gradient) {
  Tensor &parameter = parameters_[i], &m = exp_avg_[i], &v = exp_avg_sq_[i];
  const auto &[rate, scale] = corrected(count_slot(i));
  bool decoupled = options_.decoupled_weight_decay;
  Tensor g = gradient;
  if (!decoupled && options_.weight_decay != 0)
    g = g + parameter * options_.weight_decay;
  m.copy_(m + (g - m) * (1 - options_.beta1));
  v.copy_(v * options_.beta2 + square(g) * (1 - options_.beta2));
  Tensor spread = v;
  if (options_.amsgrad) {
    max_exp_avg_sq_[i].copy_(maximum(max_exp_avg_sq_[i], v));
    spread = max_exp_avg_sq_[i];
  }
  DType dtype = parameter.dtype();
  Tensor kept = decoupled ? parameter * keep_.as(dtype) : parameter;
  parameter.copy_(kept - (m / (sqrt(spread) * scale.as(dtype) + options_.eps)) * rate.as(dtype));
}

} // namespace weft::optim
