#include "weft/models/blocks.h"

#include <algorithm>

#include "weft/composites.h"
#include "weft/random.h"

namespace weft::models {

Tensor activate(const Tensor &x, Activation activation, Location location) {
  switch (activation) {
  case Activation::kNone:
    return x;
  case Activation::kReLU:
    return relu(x, location);
  case Activation::kReLU6:
    return relu6(x, location);
  case Activation::kSiLU:
    return silu(x, location);
  case Activation::kHardswish:
    return hardswish(x, location);
  }
  throw Error(ErrorKind::kValue, "activate: there is no such activation", location);
}

nn::BatchNorm2d batch_norm(int64_t channels, double eps, double momentum, Location location) {
  return nn::BatchNorm2d(channels, {.eps = eps, .momentum = momentum, .count_batches = true},
                         location);
}

nn::Conv2d convolution(int64_t in, int64_t out, Pair kernel_size, nn::Conv2dOptions options,
                       Location location) {
  CallerScope scope(location);
  require(in >= 1 && out >= 1 && options.groups >= 1 && in % options.groups == 0, "convolution",
          "channels must be at least 1 and multiples of the groups, they are " +
              std::to_string(in) + " to " + std::to_string(out) + " in " +
              std::to_string(options.groups) + " groups",
          location);
  Shape shape = {out, in / options.groups, kernel_size.height, kernel_size.width};
  return nn::Conv2d(nn::init::kaiming_normal(shape, 0, nn::init::Fan::kOut),
                    options.bias ? nn::init::constant({out}, 0) : Tensor(), options, location);
}

nn::Linear linear_normal(int64_t in, int64_t out, double deviation, Location location) {
  CallerScope scope(location);
  return nn::Linear(nn::init::normal({out, in}, 0, deviation), nn::init::constant({out}, 0),
                    location);
}

int64_t round_channels(double value, int64_t divisor) {
  auto rounded = static_cast<int64_t>(value + static_cast<double>(divisor) / 2) / divisor * divisor;
  rounded = std::max(divisor, rounded);
  return static_cast<double>(rounded) < 0.9 * value ? rounded + divisor : rounded;
}

ConvNorm::ConvNorm(int64_t in, int64_t out, int64_t kernel_size, ConvNormOptions options,
                   Location location)
    : convolution(models::convolution(in, out, kernel_size,
                                      {.stride = options.stride,
                                       .padding = kernel_size / 2,
                                       .groups = options.groups,
                                       .bias = false},
                                      location)),
      norm(batch_norm(out, options.eps, options.momentum, location)),
      activation_(options.activation) {
  child("0", convolution, location);
  child("1", norm, location);
}

Tensor ConvNorm::operator()(const Tensor &x, Location location) const {
  nn::ModuleCall scope(*this, location);
  return activate(norm(convolution(x)), activation_);
}

SqueezeExcitation::SqueezeExcitation(int64_t channels, int64_t squeezed, Activation inner,
                                     Gate gate, Location location)
    : fc1(convolution(channels, squeezed, 1, {}, location)),
      fc2(convolution(squeezed, channels, 1, {}, location)), inner_(inner), gate_(gate) {
  child("fc1", fc1, location);
  child("fc2", fc2, location);
}

Tensor SqueezeExcitation::operator()(const Tensor &x, Location location) const {
  nn::ModuleCall scope(*this, location);
  Tensor gate = fc2(activate(fc1(x.mean({2, 3}, true)), inner_));
  return x * (gate_ == Gate::kSigmoid ? sigmoid(gate) : hardsigmoid(gate));
}

StochasticDepth::StochasticDepth(double rate, Location location) : rate_(rate) {
  require(rate >= 0 && rate < 1, "StochasticDepth",
          "the rate must be at least 0 and below 1, it is " + std::to_string(rate), location);
}

Tensor StochasticDepth::operator()(const Tensor &x, Location location) const {
  nn::ModuleCall scope(*this, location);
  if (!training() || rate_ == 0)
    return x;
  Shape rows(x.shape().size(), 1);
  rows[0] = x.size(0);
  return x * (bernoulli(rows, 1 - rate_, x.dtype()) / (1 - rate_));
}

Tensor pool_flat(const Tensor &x, Location location) {
  return mean(x, {2, 3}, false, location);
}

void require(bool holds, const char *model, const std::string &what, Location location) {
  if (!holds)
    fail_at(location, ErrorKind::kValue, std::string(model) + ": " + what);
}

void check_next(const Tensor &ids, const nn::KeyValueCache &cache, const char *model,
                Location location) {
  if (ids.ndim() != 2 || ids.size(0) != cache.batch())
    fail_at(location, ErrorKind::kShape,
            std::string(model) + ": ids has shape " + to_string(ids.shape()) +
                "; it must be [batch, length], with the cache's batch of " +
                std::to_string(cache.batch()));
}

} // namespace weft::models
