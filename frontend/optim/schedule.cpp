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

} // namespace weft::optim
