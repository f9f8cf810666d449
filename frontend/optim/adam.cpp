#include "weft/optim/adam.h"

#include <cmath>

#include "weft/ops.h"

namespace weft::optim {

Adam::Adam(std::vector<Tensor> parameters, AdamOptions options, Location location)
    : Adam("Adam", std::move(parameters), options, false, location) {}

Adam::Adam(const char *name, std::vector<Tensor> parameters, AdamOptions options, bool decoupled,
           Location location)
    : Optimizer(name, std::move(parameters), options.lr, location), options_(options),
      decoupled_(decoupled) {
  CallerScope scope(location);
  if (options.eps < 0 || options.weight_decay < 0)
    throw Error(ErrorKind::kValue,
                std::string(name) + ": eps and weight_decay must not be negative", location);
  if (!(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1))
    throw Error(ErrorKind::kValue,
                std::string(name) + ": betas must be at least 0 and below 1, they are " +
                    std::to_string(options.beta1) + " and " + std::to_string(options.beta2),
                location);
  make_counts();
  exp_avg_ = make_moments("exp_avg");
  exp_avg_sq_ = make_moments("exp_avg_sq");
  finish_init(location);
}

void Adam::begin_step() {
  if (decoupled_)
    keep_ = StepScalar(1.0 - lr_ * options_.weight_decay);
}

const Adam::Corrected &Adam::corrected(size_t slot) {
  auto [entry, made] = corrected_.try_emplace(slot);
  if (!made)
    return entry->second;
  // beta^t as exp(t log beta), in float64: 1 - beta2^t of the first steps would lose half its
  // digits in float32.
  auto correction = [&](double beta) {
    return beta == 0 ? scalar(1.0, float64) : 1.0 - exp(count(slot) * std::log(beta));
  };
  entry->second = {StepScalar(lr_ / correction(options_.beta1)),
                   StepScalar(1.0 / sqrt(correction(options_.beta2)))};
  return entry->second;
}

void Adam::update(size_t i, const Tensor &gradient) {
  Tensor &parameter = parameters_[i], &m = exp_avg_[i], &v = exp_avg_sq_[i];
  const auto &[rate, scale] = corrected(count_slot(i));
  Tensor g = gradient;
  if (!decoupled_ && options_.weight_decay != 0)
    g = g + parameter * options_.weight_decay;
  m.copy_(m + (g - m) * (1 - options_.beta1));
  v.copy_(v * options_.beta2 + square(g) * (1 - options_.beta2));
  DType dtype = parameter.dtype();
  Tensor kept = decoupled_ ? parameter * keep_.as(dtype) : parameter;
  parameter.copy_(kept - (m / (sqrt(v) * scale.as(dtype) + options_.eps)) * rate.as(dtype));
}

} // namespace weft::optim
