// Batch normalization (Ioffe and Szegedy 2015).
#pragma once

#include "weft/images.h"
#include "weft/nn/module.h"

namespace weft::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;           // running = (1 - momentum) running + momentum batch's
  bool affine = true;              // with weight (1 at the start) and bias (0)
  bool track_running_stats = true; // without: the batch's statistics in evaluation, too
  // With num_batches_tracked, which files of PyTorch's modules have; nothing here reads it.
  bool count_batches = false;
};

// What the two below share: each channel, dim 1, with mean 0 and variance 1, times weight plus
// bias. In training with the statistics of the batch, which move the running ones; in evaluation
// with these.
class BatchNorm : public Module {
public:
  Parameter weight, bias;              // [channels]; undefined without affine
  Parameter running_mean, running_var; // [channels], buffers: 0 and 1 at the start
  // int64 [], a buffer: how many batches moved the two; undefined unless they are counted
  Parameter num_batches_tracked;

protected:
  BatchNorm(const char *name, int64_t channels, BatchNormOptions options, Location location);
  Tensor normalize(const Tensor &x) const;

private:
  BatchNormOptions options_;
};

// x: [N, channels, H, W] -> the same.
class BatchNorm2d : public BatchNorm {
public:
  // Throws Error when channels is below 1.
  explicit BatchNorm2d(int64_t channels, BatchNormOptions options = {},
                       Location location = Location::current());
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;
};

// x: [N, channels] or [N, channels, L] -> the same.
class BatchNorm1d : public BatchNorm {
public:
  // Throws Error when channels is below 1.
  explicit BatchNorm1d(int64_t channels, BatchNormOptions options = {},
                       Location location = Location::current());
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;
};

} // namespace weft::nn
