#include "weft/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace weft::optim {

static void want_positive(const char *what, int64_t value, Location location) {
  if (value < 1)
    fail_at(location, ErrorKind::kValue,
            std::string(what) + " must be at least 1, it is " + std::to_string(value));
}

double cosine_lr(int64_t step, const CosineOptions &options) {
  if (step < options.warmup)
    return options.lr * static_cast<double>(step + 1) / static_cast<double>(options.warmup);
  int64_t length = std::max<int64_t>(1, options.total - options.warmup);
  double progress =
      std::min(1.0, static_cast<double>(step - options.warmup) / static_cast<double>(length));
  double share = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return options.lr * (options.final_share + (1 - options.final_share) * share);
}

double linear_lr(int64_t step, const LinearOptions &options) {
  double progress =
      static_cast<double>(std::clamp<int64_t>(step, 0, std::max<int64_t>(options.total, 1))) /
      static_cast<double>(std::max<int64_t>(options.total, 1));
  return options.lr * (options.start_share + (options.end_share - options.start_share) * progress);
}

double step_lr(int64_t step, const StepOptions &options, Location location) {
  want_positive("step_lr: every", options.every, location);
  return options.lr * std::pow(options.gamma, static_cast<double>(step / options.every));
}

double exponential_lr(int64_t step, double lr, double gamma) {
  return step_lr(step, {lr, 1, gamma});
}

double multi_step_lr(int64_t step, double lr, const std::vector<int64_t> &milestones,
                     double gamma) {
  auto passed =
      std::count_if(milestones.begin(), milestones.end(), [&](int64_t at) { return at <= step; });
  return lr * std::pow(gamma, static_cast<double>(passed));
}

// From `from` (progress 0) to `to` (1) along half a cosine.
static double half_cosine(double from, double to, double progress) {
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * progress));
}

double one_cycle_lr(int64_t step, const OneCycleOptions &options) {
  double last = static_cast<double>(options.total - 1),
         peak = options.rising * static_cast<double>(options.total) - 1;
  double at = std::clamp(static_cast<double>(step), 0.0, std::max(last, 0.0));
  if (at <= peak && peak > 0)
    return half_cosine(options.lr * options.start_share, options.lr, at / peak);
  return half_cosine(options.lr, options.lr * options.final_share,
                     last > peak ? (at - peak) / (last - peak) : 1);
}

double warm_restarts_lr(int64_t step, const WarmRestartsOptions &options, Location location) {
  want_positive("warm_restarts_lr: period", options.period, location);
  want_positive("warm_restarts_lr: growth", options.growth, location);
  int64_t period = options.period, growth = options.growth;
  int64_t at = std::max<int64_t>(step, 0);
  if (growth == 1)
    at %= period;
  while (at >= period) {
    at -= period;
    period *= growth;
  }
  return half_cosine(options.lr, options.lowest,
                     static_cast<double>(at) / static_cast<double>(period));
}

double Plateau::operator()(double measured) {
  double bar =
      best_ ? *best_ * (options_.maximize ? 1 + options_.threshold : 1 - options_.threshold) : 0;
  bool better =
      best_ ? (options_.maximize ? measured > bar : measured < bar) : !std::isnan(measured);
  if (better)
    best_ = measured;
  without_progress_ = better ? 0 : without_progress_ + 1;
  if (cooling_ > 0) {
    --cooling_;
    without_progress_ = 0;
  }
  if (without_progress_ > options_.patience) {
    // PyTorch leaves a rate alone that would change by less than this.
    constexpr double kLeastChange = 1e-8;
    double reduced = std::max(lr_ * options_.factor, options_.lowest);
    if (lr_ - reduced > kLeastChange)
      lr_ = reduced;
    cooling_ = options_.cooldown;
    without_progress_ = 0;
  }
  return lr_;
}

} // namespace weft::optim
