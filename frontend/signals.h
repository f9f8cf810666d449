// Convolutions and pooling of signals, [batch, channels, length], with PyTorch's names and rules:
// those of images of height 1 (weft/images.h), differentiable to any order. They take one signal as
// well, without the batch.
#pragma once

#include "weft/ops.h"

namespace weft {

struct Conv1dOptions {
  int64_t stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1; // of channels, which see nothing of one another
};
// x: [N, C, L], weight: [O, C / groups, K], bias: [O] or undefined; the result is [N, O, L'] with
// L' = (L + 2 padding - dilation (K - 1) - 1) / stride + 1. One floating dtype.
Tensor conv1d(const Tensor &x, const Tensor &weight, const Tensor &bias = Tensor(),
              Conv1dOptions options = {}, Location location = Location::current());

struct ConvTranspose1dOptions {
  int64_t stride = 1, padding = 0, output_padding = 0;
  int64_t groups = 1;
  int64_t dilation = 1;
};
// The derivative of conv1d by its input, as an op. x: [N, C, L], weight: [C, O / groups, K], bias:
// [O] or undefined; the result is [N, O, (L - 1) stride - 2 padding + dilation (K - 1) +
// output_padding + 1].
Tensor conv_transpose1d(const Tensor &x, const Tensor &weight, const Tensor &bias = Tensor(),
                        ConvTranspose1dOptions options = {},
                        Location location = Location::current());

struct MaxPool1dOptions {
  std::optional<int64_t> stride = {}; // default: the window's size
  int64_t padding = 0, dilation = 1;
  bool ceil_mode = false; // a last window may reach over the end
};
// The largest element of each window of x [N, C, L]; NaN if there is one. padding (of -inf) is at
// most half a window.
Tensor max_pool1d(const Tensor &x, int64_t kernel_size, MaxPool1dOptions options = {},
                  Location location = Location::current());
struct AvgPool1dOptions {
  std::optional<int64_t> stride = {}; // default: the window's size
  int64_t padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true; // the zeros of the padding count as elements
};
// The mean of each window of x [N, C, L].
Tensor avg_pool1d(const Tensor &x, int64_t kernel_size, AvgPool1dOptions options = {},
                  Location location = Location::current());
// The means of windows chosen so that the result has this length, which may be 0: elements floor(i
// L / L') to ceil((i + 1) L / L').
Tensor adaptive_avg_pool1d(const Tensor &x, int64_t output_size,
                           Location location = Location::current());

} // namespace weft
