// Learning rates over time: plain functions of the step, for Optimizer::set_lr.
#pragma once

#include <cstdint>

namespace weft::optim {

struct CosineOptions {
  double lr = 1e-3;       // the highest
  int64_t warmup = 0;     // steps of linear growth from lr / warmup
  int64_t total = 1;      // steps until the lowest
  double final_share = 0; // the lowest, as a share of lr
};

// The rate for `step` (0 is the first): linear warm-up, then half a cosine (Loshchilov and Hutter 2017), then the lowest.
double cosine_lr(int64_t step, const CosineOptions &options);

} // namespace weft::optim
