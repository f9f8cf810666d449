#include "weft/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace weft::optim {

double cosine_lr(int64_t step, const CosineOptions &options) {
  if (step < options.warmup) return options.lr * static_cast<double>(step + 1) / static_cast<double>(options.warmup);
  int64_t length = std::max<int64_t>(1, options.total - options.warmup);
  double progress = std::min(1.0, static_cast<double>(step - options.warmup) / static_cast<double>(length));
  double share = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return options.lr * (options.final_share + (1 - options.final_share) * share);
}

double linear_lr(int64_t step, const LinearOptions &options) {
  double progress = static_cast<double>(std::clamp<int64_t>(step, 0, std::max<int64_t>(options.total, 1))) /
                    static_cast<double>(std::max<int64_t>(options.total, 1));
  return options.lr * (options.start_share + (options.end_share - options.start_share) * progress);
}

double step_lr(int64_t step, const StepOptions &options) {
  return options.lr * std::pow(options.gamma, static_cast<double>(step / std::max<int64_t>(options.every, 1)));
}

double exponential_lr(int64_t step, double lr, double gamma) { return step_lr(step, {lr, 1, gamma}); }

} // namespace weft::optim
