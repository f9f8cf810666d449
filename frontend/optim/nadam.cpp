#include "weft/optim/nadam.h"

#include <cmath>

#include "weft/ops.h"

namespace weft::optim {
namespace {

// Of a series whose terms fall as powers of 1/2: the rest is below float64's last digit.
constexpr int kTerms = 60;
// log(0.96^momentum_decay)
double log_of_decay(const NAdamOptions &options) {
  return options.momentum_decay * std::log(0.96);
}

} // namespace

NAdam::NAdam(std::vector<Tensor> parameters, NAdamOptions options, Location location)
    : Optimizer("NAdam", std::move(parameters), options.lr, location), options_(options) {
  CallerScope scope(location);
  if (!(options.eps >= 0 && options.weight_decay >= 0 && options.momentum_decay >= 0))
    throw Error(ErrorKind::kValue,
                "NAdam: eps, weight_decay and momentum_decay must not be negative", location);
  want_betas("NAdam", options.beta1, options.beta2, location);
  maximize_ = options.maximize;
  make_counts();
  exp_avg_ = make_moments("exp_avg");
  exp_avg_sq_ = make_moments("exp_avg_sq");
  // M = beta1^t * prod (1 - q^s / 2) over s = 1 .. t, for q = 0.96^momentum_decay. The product is
  // (q/2; q) of t factors, whose logarithm is - sum (q/2)^k / k * (1 - q^(k t)) / (1 - q^k) over k
  // = 1, 2, .. (Gasper and Rahman 2004, 1.3: log (a; q) = - sum a^k / (k (1 - q^k)) of infinitely
  // many factors). Where q is 1 the last quotient is t.
  double log_q = log_of_decay(options);
  std::vector<double> terms, powers;
  for (int k = 1; k <= kTerms; ++k) {
    double a = std::exp(k * (log_q - std::log(2.0))) / k;
    terms.push_back(log_q == 0 ? a : a / -std::expm1(k * log_q));
    powers.push_back(k * log_q);
  }
  terms_ = Tensor::from(terms).to(lr_.device());
  powers_ = Tensor::from(powers).to(lr_.device());
  finish_init(location);
}

void NAdam::begin_step() {
  if (options_.decoupled_weight_decay)
    keep_ = StepScalar(1.0 - lr_ * options_.weight_decay);
}

const NAdam::Shares &NAdam::shares(size_t slot) {
  auto [entry, made] = shares_.try_emplace(slot);
  if (!made)
    return entry->second;
  const Tensor &t = count(slot);
  double log_q = log_of_decay(options_), beta1 = options_.beta1;
  auto mu = [&](const Tensor &at) {
    return beta1 * (1.0 - 0.5 * exp(at * log_q));
  };
  Tensor now = mu(t), next = mu(t + 1.0), product = now * 0.0;
  if (beta1 > 0) {
    Tensor quotients = log_q == 0 ? t.expand({kTerms}) : -expm1(powers_ * t);
    product = exp(t * std::log(beta1) - sum(terms_ * quotients));
  }
  entry->second = {StepScalar(lr_ * (1.0 - now) / (1.0 - product)),
                   StepScalar(lr_ * next / (1.0 - product * next)),
                   StepScalar(1.0 / sqrt(correction(slot, options_.beta2)))};
  return entry->second;
}

void NAdam::update(size_t i, const Tensor &gradient) {
  Tensor &parameter = parameters_[i], &m = exp_avg_[i], &v = exp_avg_sq_[i];
  const auto &[of_gradient, of_moment, scale] = shares(count_slot(i));
  bool decoupled = options_.decoupled_weight_decay;
  Tensor g = gradient;
  if (!decoupled && options_.weight_decay != 0)
    g = g + parameter * options_.weight_decay;
  m.copy_(m + (g - m) * (1 - options_.beta1));
  v.copy_(v * options_.beta2 + square(g) * (1 - options_.beta2));
  DType dtype = parameter.dtype();
  Tensor kept = decoupled ? parameter * keep_.as(dtype) : parameter,
         direction = g * of_gradient.as(dtype) + m * of_moment.as(dtype);
  parameter.copy_(kept - direction / (sqrt(v) * scale.as(dtype) + options_.eps));
}

} // namespace weft::optim
