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

struct LinearOptions {
  double lr = 1e-3;
  double start_share = 0; // of lr, at step 0
  double end_share = 1;   // of lr, from step `total` on
  int64_t total = 1;
};
// From a share of lr to another in equal steps: a warm-up, or a decay. PyTorch's LinearLR.
double linear_lr(int64_t step, const LinearOptions &options);

// lr * gamma^(step / every), rounded down: PyTorch's StepLR. With every = 1 its ExponentialLR.
struct StepOptions {
  double lr = 1e-3;
  int64_t every = 1;
  double gamma = 0.1;
};
double step_lr(int64_t step, const StepOptions &options);
double exponential_lr(int64_t step, double lr, double gamma);

} // namespace weft::optim
