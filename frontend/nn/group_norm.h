// Normalizations without statistics of their own: by groups of channels (Wu and He 2018), by the
// root mean square (Zhang and Sennrich 2019).
#pragma once

#include "weft/images.h"
#include "weft/nn/module.h"

namespace weft::nn {

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true; // with weight (1 at the start) and bias (0)
};

// x: [N, channels, ...] -> the same, each sample's groups of channels with mean 0 and variance 1,
// times weight plus bias by channel.
class GroupNorm : public Module {
public:
  // Throws Error unless groups divides channels.
  GroupNorm(int64_t groups, int64_t channels, GroupNormOptions options = {},
            Location location = Location::current());

  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

  Parameter weight, bias; // [channels]; undefined without affine

private:
  int64_t groups_;
  double eps_;
};

struct InstanceNormOptions {
  double eps = 1e-5;
  bool affine = false; // with weight (1 at the start) and bias (0)
};

// x: [N, channels, H, W] -> the same, each image's channels with mean 0 and variance 1 (Ulyanov et
// al. 2016): a group for each channel. Running statistics, which PyTorch has as an option, are left
// out: without them training and evaluation are one.
class InstanceNorm2d : public Module {
public:
  // Throws Error when channels is below 1.
  explicit InstanceNorm2d(int64_t channels, InstanceNormOptions options = {},
                          Location location = Location::current());

  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

  Parameter weight, bias; // [channels]; undefined without affine

private:
  int64_t channels_;
  double eps_;
};

struct RMSNormOptions {
  double eps = 1e-6;
  bool affine = true; // with weight (1 at the start)
};

// x: [.., shape..] -> x / sqrt(mean(x^2) + eps) * weight, the mean over the last dims.
class RMSNorm : public Module {
public:
  RMSNorm(Shape shape, RMSNormOptions options = {}, Location location = Location::current());
  RMSNorm(int64_t size, RMSNormOptions options = {}, Location location = Location::current())
      : RMSNorm(Shape{size}, options, location) {}

  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

  Parameter weight; // [shape..]; undefined without affine

private:
  Shape shape_;
  double eps_;
};

} // namespace weft::nn
