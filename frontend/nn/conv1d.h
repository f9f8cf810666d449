// Convolutions of signals, [batch, channels, length].
#pragma once

#include "weft/nn/module.h"
#include "weft/signals.h"

namespace weft::nn {

struct Conv1dOptions {
  int64_t stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};

// weft::conv1d with a weight [out, in / groups, kernel] and a bias [out], both uniform over +-1 /
// sqrt(in / groups * kernel) at the start, as in PyTorch.
class Conv1d : public Module {
public:
  // Throws Error when a size is below 1, or groups does not divide both channel counts.
  Conv1d(int64_t in, int64_t out, int64_t kernel_size, Conv1dOptions options = {},
         Location location = Location::current());

  // x: [N, in, L] -> [N, out, L'].
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

  Parameter weight, bias; // bias: undefined when left out

private:
  Conv1dOptions options_;
};

struct ConvTranspose1dOptions {
  int64_t stride = 1, padding = 0, output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
  int64_t dilation = 1;
};

// weft::conv_transpose1d with a weight [in, out / groups, kernel] and a bias [out], both uniform
// over +-1 / sqrt(out / groups * kernel) at the start, as in PyTorch.
class ConvTranspose1d : public Module {
public:
  // Throws Error when a size is below 1, or groups does not divide both channel counts.
  ConvTranspose1d(int64_t in, int64_t out, int64_t kernel_size, ConvTranspose1dOptions options = {},
                  Location location = Location::current());

  // x: [N, in, L] -> [N, out, L'].
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

  Parameter weight, bias; // bias: undefined when left out

private:
  ConvTranspose1dOptions options_;
};

} // namespace weft::nn
