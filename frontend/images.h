// Convolutions, pooling, normalization and resizing of images, [batch, channels, height, width],
// with PyTorch's names and rules: convolutions and pooling take one image as well, without the
// batch. All are differentiable, to any order. Errors name the op, the arguments and their shapes,
// and stand at the caller's line.
#pragma once

#include "weft/ops.h"

namespace weft {

// A number for height and one for width; one number is both.
struct Pair {
  int64_t height, width;
  Pair(int64_t both) : height(both), width(both) {}
  Pair(int64_t height, int64_t width) : height(height), width(width) {}
};

struct Conv2dOptions {
  Pair stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1; // of channels, which see nothing of one another
};
// x: [N, C, H, W], weight: [O, C / groups, KH, KW], bias: [O] or undefined; the result is [N, O,
// H', W'] with H' = (H + 2 padding - dilation (KH - 1) - 1) / stride + 1, and W' alike. One
// floating dtype. Whether a weight that is NaN or infinite spoils what it meets padding in depends
// on sizes and dtypes, as in PyTorch.
Tensor conv2d(const Tensor &x, const Tensor &weight, const Tensor &bias = Tensor(),
              Conv2dOptions options = {}, Location location = Location::current());

struct ConvTranspose2dOptions {
  Pair stride = 1, padding = 0, output_padding = 0;
  int64_t groups = 1;
  Pair dilation = 1;
};
// The derivative of conv2d by its input, as an op. x: [N, C, H, W], weight: [C, O / groups, KH,
// KW], bias: [O] or undefined; the result is [N, O, H', W'] with H' = (H - 1) stride - 2 padding +
// dilation (KH - 1) + output_padding + 1, and W' alike. output_padding must be less than stride or
// dilation.
Tensor conv_transpose2d(const Tensor &x, const Tensor &weight, const Tensor &bias = Tensor(),
                        ConvTranspose2dOptions options = {},
                        Location location = Location::current());

struct MaxPool2dOptions {
  std::optional<Pair> stride; // default: the window's size
  Pair padding = 0, dilation = 1;
  bool ceil_mode = false; // a last window may reach over the image's end
};
// The largest element of each window; NaN if there is one. padding (of -inf) is at most half a
// window.
Tensor max_pool2d(const Tensor &x, Pair kernel_size, MaxPool2dOptions options = {},
                  Location location = Location::current());
// Beside it, where each lies in its image, y * W + x: int32, the first of equal ones, the last NaN.
std::pair<Tensor, Tensor> max_pool2d_with_indices(const Tensor &x, Pair kernel_size,
                                                  MaxPool2dOptions options = {},
                                                  Location location = Location::current());
struct AvgPool2dOptions {
  std::optional<Pair> stride; // default: the window's size
  Pair padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true; // the zeros of the padding count as elements
};
// The mean of each window; x and the result as in max_pool2d.
Tensor avg_pool2d(const Tensor &x, Pair kernel_size, AvgPool2dOptions options = {},
                  Location location = Location::current());
// The means of windows chosen so that the result has this size, which may be 0: rows floor(i H /
// H') to ceil((i + 1) H / H').
Tensor adaptive_avg_pool2d(const Tensor &x, Pair output_size,
                           Location location = Location::current());

struct BatchNormOptions {
  bool training = false;
  double momentum = 0.1; // running = (1 - momentum) running + momentum batch's
  double eps = 1e-5;
};
// (x - mean) / sqrt(variance + eps) * weight + bias for each channel (dim 1 of x: [N, C, ...]);
// weight, bias: [C] or undefined. In training with the statistics of the batch, which then move the
// running ones (in place, where they are defined; the variance without bias); else with the running
// ones (Ioffe and Szegedy 2015). Training wants more than one element a channel; of none the result
// is empty, and the running ones stay.
Tensor batch_norm(const Tensor &x, Tensor running_mean, Tensor running_variance,
                  const Tensor &weight = Tensor(), const Tensor &bias = Tensor(),
                  BatchNormOptions options = {}, Location location = Location::current());
// The same over each sample's groups of channels, without running statistics (Wu and He 2018).
Tensor group_norm(const Tensor &x, int64_t groups, const Tensor &weight = Tensor(),
                  const Tensor &bias = Tensor(), double eps = 1e-5,
                  Location location = Location::current());
// x / sqrt(mean(x^2) + eps) * weight over the last normalized_shape.size() dims (Zhang and Sennrich
// 2019).
Tensor rms_norm(const Tensor &x, const Shape &normalized_shape, const Tensor &weight = Tensor(),
                double eps = 1e-6, Location location = Location::current());

// How a pixel is made of those around its place: the nearest one, a mean of four, sixteen by cubic
// polynomials (Keys 1981), or the mean of those that it covers (adaptive_avg_pool2d).
enum class Resize { kNearest, kBilinear, kBicubic, kArea };
struct ResizeOptions {
  Resize mode = Resize::kNearest;
  bool align_corners = false; // kBilinear, kBicubic: the corners' pixels keep their values
  // kBilinear, kBicubic: where the image shrinks, the filter grows with the distance of the pixels.
  bool antialias = false;
};
// Images of another size. A pixel reads from (i + 0.5) H / H' - 0.5 (kBilinear, kBicubic; i (H - 1)
// / (H' - 1) with align_corners), between two or four rows and columns; or from floor(i H / H')
// (kNearest, which takes any dtype).
Tensor resize(const Tensor &x, Pair size, ResizeOptions options = {},
              Location location = Location::current());

// --- Patches ---
struct PatchOptions {
  Pair stride = 1, padding = 0, dilation = 1;
};
// The windows of images as columns: x [N, C, H, W] -> [N, C kh kw, L], where L counts the windows,
// rows first. Or without batch.
Tensor unfold(const Tensor &x, Pair kernel_size, PatchOptions options = {},
              Location location = Location::current());
// The images of this size whose pixels are the sums of what the windows [N, C kh kw, L] have there:
// [N, C, H, W]. Or without batch.
Tensor fold(const Tensor &x, Pair output_size, Pair kernel_size, PatchOptions options = {},
            Location location = Location::current());
// Each block of factor^2 channels as a block of pixels: [.., C factor^2, H, W] -> [.., C, H factor,
// W factor] (Shi et al. 2016).
Tensor pixel_shuffle(const Tensor &x, int64_t factor, Location location = Location::current());
// The way back: [.., C, H factor, W factor] -> [.., C factor^2, H, W].
Tensor pixel_unshuffle(const Tensor &x, int64_t factor, Location location = Location::current());
// What lies outside an image: zeros, or the nearest pixel of its border.
enum class GridPadding { kZeros, kBorder };
struct GridSampleOptions {
  Resize mode = Resize::kBilinear;
  GridPadding padding =
      GridPadding::kZeros;    // what lies outside: 0, or the nearest pixel of the border
  bool align_corners = false; // -1 and 1 are the centres of the outermost pixels, not their edges
};
// x [N, C, H, W] at the places of grid [N, H', W', 2], each {column, row} in [-1, 1] over the
// image: [N, C, H', W'] (Jaderberg et al. 2015). A place that is NaN is that of -1.
Tensor grid_sample(const Tensor &x, const Tensor &grid, GridSampleOptions options = {},
                   Location location = Location::current());
// The grid [N, H, W, 2] of places that the maps theta [N, 2, 3] give for the centres of an output's
// pixels; size is {N, C, H, W}.
Tensor affine_grid(const Tensor &theta, const Shape &size, bool align_corners = false,
                   Location location = Location::current());

} // namespace weft
