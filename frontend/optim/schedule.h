// Learning rates over time, for Optimizer::set_lr: plain functions of the step, and one of
// measurements.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "weft/error.h"

namespace weft::optim {

struct CosineOptions {
  double lr = 1e-3;       // the highest
  int64_t warmup = 0;     // steps of linear growth from lr / warmup
  int64_t total = 1;      // steps until the lowest
  double final_share = 0; // the lowest, as a share of lr
};

// The rate for `step` (0 is the first): linear warm-up, then half a cosine (Loshchilov and Hutter
// 2017), then the lowest.
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
// Error kValue: `every` is not positive.
double step_lr(int64_t step, const StepOptions &options,
               Location location = Location::current());
double exponential_lr(int64_t step, double lr, double gamma);

// lr * gamma^(how many milestones are at most `step`): PyTorch's MultiStepLR. Milestones in any
// order.
double multi_step_lr(int64_t step, double lr, const std::vector<int64_t> &milestones,
                     double gamma = 0.1);

struct OneCycleOptions {
  double lr = 1e-3;                // the highest
  int64_t total = 1;               // steps
  double rising = 0.3;             // the share of them in which it grows
  double start_share = 1.0 / 25;   // of lr, at step 0
  double final_share = 1.0 / 25e4; // of lr, at the last step
};
// Up and down along half cosines (Smith and Topin 2017): PyTorch's OneCycleLR with cosine
// annealing, of the rate alone.
double one_cycle_lr(int64_t step, const OneCycleOptions &options);

struct WarmRestartsOptions {
  double lr = 1e-3;  // the highest
  double lowest = 0; // not reached
  int64_t period = 1;
  int64_t growth = 1; // of the period, at each restart
};
// Half cosines, one after the other (Loshchilov and Hutter 2017): PyTorch's
// CosineAnnealingWarmRestarts. Error kValue: `period` or `growth` is not positive.
double warm_restarts_lr(int64_t step, const WarmRestartsOptions &options,
                        Location location = Location::current());

struct PlateauOptions {
  double lr = 1e-3;
  double factor = 0.1;     // of the rate, after
  int64_t patience = 10;   // measurements in a row without progress, and one more
  double threshold = 1e-4; // progress is to below best * (1 - threshold); above best * (1 +
                           // threshold) with `maximize`
  int64_t cooldown = 0;    // measurements after a reduction that do not count
  double lowest = 0;
  bool maximize = false;
};
// The rate after each measurement of a loss or a score: PyTorch's ReduceLROnPlateau. A plain value
// that a checkpoint can hold.
class Plateau {
public:
  explicit Plateau(PlateauOptions options) : options_(options), lr_(options.lr) {}
  // The rate from now on. A measurement that is NaN is no progress.
  double operator()(double measured);
  double lr() const {
    return lr_;
  }

private:
  PlateauOptions options_;
  double lr_;
  std::optional<double> best_;
  int64_t without_progress_ = 0, cooling_ = 0;
};

} // namespace weft::optim
