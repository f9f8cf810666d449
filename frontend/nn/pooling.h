// Pooling and resizing of images, [batch, channels, height, width], and pooling of signals, [batch,
// channels, length].
#pragma once

#include "weft/images.h"
#include "weft/nn/module.h"
#include "weft/signals.h"

namespace weft::nn {

class MaxPool2d : public Module {
public:
  explicit MaxPool2d(Pair kernel_size, MaxPool2dOptions options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    ModuleCall scope(*this, location);
    return weft::max_pool2d(x, kernel_, options_);
  }

private:
  Pair kernel_;
  MaxPool2dOptions options_;
};

class AvgPool2d : public Module {
public:
  explicit AvgPool2d(Pair kernel_size, AvgPool2dOptions options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    ModuleCall scope(*this, location);
    return weft::avg_pool2d(x, kernel_, options_);
  }

private:
  Pair kernel_;
  AvgPool2dOptions options_;
};

// The result has this size, whatever the image's.
class AdaptiveAvgPool2d : public Module {
public:
  explicit AdaptiveAvgPool2d(Pair output_size) : size_(output_size) {}
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    ModuleCall scope(*this, location);
    return weft::adaptive_avg_pool2d(x, size_);
  }

private:
  Pair size_;
};

class MaxPool1d : public Module {
public:
  explicit MaxPool1d(int64_t kernel_size, MaxPool1dOptions options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    ModuleCall scope(*this, location);
    return weft::max_pool1d(x, kernel_, options_);
  }

private:
  int64_t kernel_;
  MaxPool1dOptions options_;
};

class AvgPool1d : public Module {
public:
  explicit AvgPool1d(int64_t kernel_size, AvgPool1dOptions options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    ModuleCall scope(*this, location);
    return weft::avg_pool1d(x, kernel_, options_);
  }

private:
  int64_t kernel_;
  AvgPool1dOptions options_;
};

// The result has this length, whatever the signal's.
class AdaptiveAvgPool1d : public Module {
public:
  explicit AdaptiveAvgPool1d(int64_t output_size) : size_(output_size) {}
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    ModuleCall scope(*this, location);
    return weft::adaptive_avg_pool1d(x, size_);
  }

private:
  int64_t size_;
};

// Images `scale` times as large.
class Upsample : public Module {
public:
  // Throws Error when a scale is below 1.
  explicit Upsample(Pair scale, ResizeOptions options = {},
                    Location location = Location::current());
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

private:
  Pair scale_;
  ResizeOptions options_;
};

} // namespace weft::nn
