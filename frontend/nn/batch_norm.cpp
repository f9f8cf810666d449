#include "weft/nn/batch_norm.h"

#include "weft/autograd.h"
#include "weft/nn/init.h"

namespace weft::nn {

BatchNorm::BatchNorm(const char *name, int64_t channels, BatchNormOptions options,
                     Location location)
    : options_(options) {
  CallerScope scope(location);
  if (channels < 1)
    fail_at(location, ErrorKind::kValue,
            std::string(name) + ": there must be at least 1 channel, there are " +
                std::to_string(channels));
  if (options.affine) {
    weight = parameter("weight", init::constant({channels}, 1));
    bias = parameter("bias", init::constant({channels}, 0));
  }
  if (options.track_running_stats) {
    running_mean = buffer("running_mean", init::constant({channels}, 0));
    running_var = buffer("running_var", init::constant({channels}, 1));
    if (options.count_batches)
      num_batches_tracked = buffer("num_batches_tracked", init::constant({}, 0, int64));
  }
}

Tensor BatchNorm::normalize(const Tensor &x) const {
  bool batch = training() || !options_.track_running_stats;
  Tensor y =
      weft::batch_norm(x, running_mean, running_var, weight, bias,
                       {.training = batch, .momentum = options_.momentum, .eps = options_.eps});
  if (num_batches_tracked.defined() && training()) {
    // A cut computes with its slice what reads a value of it. One more batch reads none: each step
    // would leave an addition behind. So it is chosen by a statistic, between equal numbers.
    NoGrad no_grad;
    Tensor count = num_batches_tracked, next = count + 1;
    count.copy_(where(running_mean.select(0, 0) == 0, next, next));
  }
  return y;
}

BatchNorm2d::BatchNorm2d(int64_t channels, BatchNormOptions options, Location location)
    : BatchNorm("BatchNorm2d", channels, options, location) {}

Tensor BatchNorm2d::operator()(const Tensor &x, Location location) const {
  ModuleCall scope(*this, location);
  if (x.ndim() != 4)
    fail_at(location, ErrorKind::kShape,
            "BatchNorm2d: x has shape " + to_string(x.shape()) +
                "; it must be [batch, channels, height, width]");
  return normalize(x);
}

BatchNorm1d::BatchNorm1d(int64_t channels, BatchNormOptions options, Location location)
    : BatchNorm("BatchNorm1d", channels, options, location) {}

Tensor BatchNorm1d::operator()(const Tensor &x, Location location) const {
  ModuleCall scope(*this, location);
  if (x.ndim() != 2 && x.ndim() != 3)
    fail_at(location, ErrorKind::kShape,
            "BatchNorm1d: x has shape " + to_string(x.shape()) +
                "; it must be [batch, channels] or [batch, channels, length]");
  return normalize(x);
}

} // namespace weft::nn
