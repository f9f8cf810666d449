#include "weft/optim/radam.h"

#include <cmath>

#include "weft/ops.h"

namespace weft::optim {

RAdam::RAdam(std::vector<Tensor> parameters, RAdamOptions options, Location location)
    : Optimizer("RAdam", std::move(parameters), options.lr, location), options_(options) {
  CallerScope scope(location);
  if (!(options.eps >= 0 && options.weight_decay >= 0))
    throw Error(ErrorKind::kValue, "RAdam: eps and weight_decay must not be negative", location);
  want_betas("RAdam", options.beta1, options.beta2, location);
  maximize_ = options.maximize;
  make_counts();
  exp_avg_ = make_moments("exp_avg");
  exp_avg_sq_ = make_moments("exp_avg_sq");
  finish_init(location);
}

void RAdam::begin_step() {
  if (options_.decoupled_weight_decay)
    keep_ = StepScalar(1.0 - lr_ * options_.weight_decay);
}

const RAdam::Rates &RAdam::rates(size_t slot) {
  auto [entry, made] = rates_.try_emplace(slot);
  if (!made)
    return entry->second;
  const double most = 2 / (1 - options_.beta2) - 1;
  Tensor rate = lr_ / correction(slot, options_.beta1), none = rate * 0.0;
  if (most <= 5) { // and no step has more
    entry->second = {StepScalar(rate), StepScalar(none)};
    return entry->second;
  }
  // The steps that it takes in place of a switch: all of them are one program.
  Tensor bias = correction(slot, options_.beta2),
         length = most - 2.0 * count(slot) * (1.0 - bias) / bias;
  Tensor adapts = length > 5.0, safe = where(adapts, length, 6.0);
  Tensor rectified = sqrt((safe - 4.0) * (safe - 2.0) * most / ((most - 4) * (most - 2) * safe));
  entry->second = {StepScalar(where(adapts, none, rate)),
                   StepScalar(where(adapts, rate * rectified * sqrt(bias), none))};
  return entry->second;
}

void RAdam::update(size_t i, const Tensor &gradient) {
  Tensor &parameter = parameters_[i], &m = exp_avg_[i], &v = exp_avg_sq_[i];
  const auto &[plain, adaptive] = rates(count_slot(i));
  bool decoupled = options_.decoupled_weight_decay;
  Tensor g = gradient;
  if (!decoupled && options_.weight_decay != 0)
    g = g + parameter * options_.weight_decay;
  m.copy_(m + (g - m) * (1 - options_.beta1));
  v.copy_(v * options_.beta2 + square(g) * (1 - options_.beta2));
  DType dtype = parameter.dtype();
  const Tensor &share = adaptive.as(dtype);
  Tensor kept = decoupled ? parameter * keep_.as(dtype) : parameter;
  // By a choice: an eps of 0 may divide by 0 where nothing is to be adapted.
  parameter.copy_(kept -
                  where(share > 0, m / (sqrt(v) + options_.eps) * share, m * plain.as(dtype)));
}

} // namespace weft::optim
