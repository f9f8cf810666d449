#include "weft/optim/adamw.h"

#include <cmath>

#include "weft/ops.h"

namespace weft::optim {

AdamW::AdamW(std::vector<Tensor> parameters, AdamWOptions options, Location location)
    : Optimizer("AdamW", std::move(parameters), options.lr, location), options_(options) {
  CallerScope scope(location);
  if (options.eps < 0 || options.weight_decay < 0)
    throw Error(ErrorKind::kValue, "AdamW: eps and weight_decay must not be negative", location);
  if (!(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1))
    throw Error(ErrorKind::kValue,
                "AdamW: betas must be at least 0 and below 1, they are " + std::to_string(options.beta1) + " and " +
                    std::to_string(options.beta2),
                location);
  step_ = make_scalar("step", 0);
  exp_avg_ = make_moments("exp_avg");
  exp_avg_sq_ = make_moments("exp_avg_sq");
  finish_init(location);
}

void AdamW::begin_step() {
  step_ += 1.0;
  // beta^t as exp(t log beta), in float64: 1 - beta2^t of the first steps would lose half its digits in float32.
  auto correction = [&](double beta) { return beta == 0 ? scalar(1.0, float64) : 1.0 - exp(step_ * std::log(beta)); };
  keep_ = StepScalar(1.0 - lr_ * options_.weight_decay);
  rate_ = StepScalar(lr_ / correction(options_.beta1));
  scale_ = StepScalar(1.0 / sqrt(correction(options_.beta2)));
}

void AdamW::update(size_t i, const Tensor &gradient) {
  Tensor &parameter = parameters_[i], &m = exp_avg_[i], &v = exp_avg_sq_[i];
  m.copy_(m + (gradient - m) * (1 - options_.beta1));
  v.copy_(v * options_.beta2 + square(gradient) * (1 - options_.beta2));
  DType dtype = parameter.dtype();
  parameter.copy_(parameter * keep_.as(dtype) - (m / (sqrt(v) * scale_.as(dtype) + options_.eps)) * rate_.as(dtype));
}

} // namespace weft::optim
