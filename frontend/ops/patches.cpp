// Windows of images as columns, channels as pixels, and images read at any places.
#include <cmath>
#include <limits>

#include "frontend/ops/promotion.h"
#include "frontend/ops/windows.h"
#include "frontend/tensor/impl.h"
#include "weft/composites.h"
#include "weft/images.h"

namespace weft {

using namespace recorder;

namespace {

// How windows lie in images of this size.
struct Windows {
  int64_t kernel[2], stride[2], padding[2], dilation[2], counts[2];
};
Windows windows_of(const Shape &size, const Pair &kernel, const PatchOptions &options) {
  auto both = [](const Pair &pair, int i) {
    return i == 0 ? pair.height : pair.width;
  };
  want_of_window("kernel_size", kernel, 1);
  want_of_window("stride", options.stride, 1);
  want_of_window("padding", options.padding, 0);
  want_of_window("dilation", options.dilation, 1);
  Windows w;
  for (int i = 0; i < 2; ++i) {
    w.kernel[i] = both(kernel, i);
    w.stride[i] = both(options.stride, i);
    w.padding[i] = both(options.padding, i);
    w.dilation[i] = both(options.dilation, i);
    int64_t reach = w.dilation[i] * (w.kernel[i] - 1) + 1,
            room = size[i] + 2 * w.padding[i] - reach;
    if (room < 0)
      fail(ErrorKind::kShape, "kernel_size is " + show(kernel) + ", dilation " +
                                  show(options.dilation) + ", padding " + show(options.padding) +
                                  ": a window of " + std::to_string(reach) +
                                  " pixels does not fit into images of " + to_string(size));
    w.counts[i] = room / w.stride[i] + 1;
  }
  return w;
}

// For element (row, column) of a window: its pixel in each of the windows, of padded images.
Tensor taps(const Tensor &padded, const Windows &w, int64_t row, int64_t column) {
  int64_t y = row * w.dilation[0], x = column * w.dilation[1];
  return padded.slice(2, y, y + (w.counts[0] - 1) * w.stride[0] + 1, w.stride[0])
      .slice(3, x, x + (w.counts[1] - 1) * w.stride[1] + 1, w.stride[1]);
}

} // namespace

Tensor unfold(const Tensor &x, Pair kernel_size, PatchOptions options, Location location) {
  Session session("unfold", location);
  const TypeInfo &type = *checked(x, "x")->type;
  if (type.ndim() == 3)
    return unfold(x.unsqueeze(0), kernel_size, options).squeeze(0);
  if (type.ndim() != 4)
    fail(ErrorKind::kShape, "x has shape " + to_string(type.dims) +
                                "; it must be [N, C, H, W], or without batch");
  Windows w = windows_of({type.dims[2], type.dims[3]}, kernel_size, options);
  Tensor padded = pad(x, {w.padding[1], w.padding[1], w.padding[0], w.padding[0]});
  std::vector<Tensor> elements;
  for (int64_t i = 0; i < w.kernel[0]; ++i)
    for (int64_t j = 0; j < w.kernel[1]; ++j)
      elements.push_back(taps(padded, w, i, j));
  return stack(elements, 2)
      .reshape({type.dims[0], type.dims[1] * w.kernel[0] * w.kernel[1], w.counts[0] * w.counts[1]});
}

Tensor fold(const Tensor &x, Pair output_size, Pair kernel_size, PatchOptions options,
            Location location) {
  Session session("fold", location);
  const TypeInfo &type = *checked(x, "x")->type;
  int64_t height = output_size.height, width = output_size.width;
  Windows w = windows_of({height, width}, kernel_size, options);
  int64_t elements = w.kernel[0] * w.kernel[1], windows = w.counts[0] * w.counts[1];
  if ((type.ndim() != 2 && type.ndim() != 3) || type.dims.end()[-2] % elements != 0 ||
      type.dims.back() != windows)
    fail(ErrorKind::kShape, "x has shape " + to_string(type.dims) +
                                "; for these windows it must be [N, C * " +
                                std::to_string(elements) + ", " + std::to_string(windows) +
                                "], or without batch");
  if (type.ndim() == 2)
    return fold(x.unsqueeze(0), output_size, kernel_size, options).squeeze(0);
  int64_t images = type.dims[0], channels = type.dims[1] / elements;
  Tensor parts = x.reshape({images, channels, elements, w.counts[0], w.counts[1]});
  Tensor padded =
      zeros({images, channels, height + 2 * w.padding[0], width + 2 * w.padding[1]}, type.dtype);
  for (int64_t i = 0; i < w.kernel[0]; ++i)
    for (int64_t j = 0; j < w.kernel[1]; ++j) {
      Tensor here = taps(padded, w, i, j);
      here += parts.select(2, i * w.kernel[1] + j);
    }
  return padded.narrow(2, w.padding[0], height).narrow(3, w.padding[1], width).clone();
}

Tensor pixel_shuffle(const Tensor &x, int64_t factor, Location location) {
  Session session("pixel_shuffle", location);
  Shape shape = checked(x, "x")->type->dims;
  size_t rank = shape.size();
  want_of_window("factor", factor, 1); // its square is an int64
  if (rank < 3 || shape[rank - 3] % (factor * factor) != 0)
    fail(ErrorKind::kShape, "x has shape " + to_string(shape) +
                                "; it must be [.., C, H, W] with a multiple of " +
                                std::to_string(factor * factor) + " channels");
  int64_t channels = shape[rank - 3] / (factor * factor), height = shape[rank - 2],
          width = shape[rank - 1];
  Tensor blocks =
      x.reshape({-1, channels, factor, factor, height, width}).permute({0, 1, 4, 2, 5, 3});
  shape[rank - 3] = channels;
  shape[rank - 2] = height * factor;
  shape[rank - 1] = width * factor;
  return of_its_own(blocks.reshape(shape), x);
}

Tensor pixel_unshuffle(const Tensor &x, int64_t factor, Location location) {
  Session session("pixel_unshuffle", location);
  Shape shape = checked(x, "x")->type->dims;
  size_t rank = shape.size();
  want_of_window("factor", factor, 1); // its square is an int64
  if (rank < 3 || shape[rank - 2] % factor != 0 || shape[rank - 1] % factor != 0)
    fail(ErrorKind::kShape,
         "x has shape " + to_string(shape) +
             "; it must be [.., C, H, W], whose height and width are multiples of " +
             std::to_string(factor));
  int64_t channels = shape[rank - 3], height = shape[rank - 2] / factor,
          width = shape[rank - 1] / factor;
  Tensor blocks =
      x.reshape({-1, channels, height, factor, width, factor}).permute({0, 1, 3, 5, 2, 4});
  shape[rank - 3] = channels * factor * factor;
  shape[rank - 2] = height;
  shape[rank - 1] = width;
  return of_its_own(blocks.reshape(shape), x);
}

Tensor grid_sample(const Tensor &x, const Tensor &grid, GridSampleOptions options,
                   Location location) {
  Session session("grid_sample", location);
  Var image = floating_only(x), places = floating_only(grid, "grid");
  if (image.ndim() != 4)
    fail(ErrorKind::kShape,
         "x has shape " + to_string(image.dims()) + "; it must be [N, C, H, W]");
  const Shape &from = image.dims(), &at = places.dims();
  want_one_dtype(image.type(), "x", places.type(), "grid");
  if (at.size() != 4 || at[3] != 2 || at[0] != from[0])
    fail(ErrorKind::kShape, "grid has shape " + to_string(at) + ", x has shape " + to_string(from) +
                                ": grid must be [N, H', W', 2]");
  if (options.mode != Resize::kNearest && options.mode != Resize::kBilinear)
    fail(ErrorKind::kValue, "grid_sample reads the nearest pixel or by bilinear interpolation");
  int64_t height = from[2], width = from[3];
  if (height == 0 || width == 0)
    fail(ErrorKind::kShape, "x has shape " + to_string(from) + ", which has no pixels to read");
  Tensor pixels = wrap(widened(image)).reshape({from[0], from[1], height * width}),
         wide = wrap(widened(places));
  bool zero_outside = options.padding == GridPadding::kZeros;
  // Of pixels; half the bytes where they fit.
  DType whole = height <= std::numeric_limits<int32_t>::max() / width ? DType::kInt32
                                                                      : DType::kInt64;
  // A position in pixels, counted from the centre of the first pixel.
  auto position = [&](int64_t which, int64_t size) {
    Tensor place = wide.select(3, which);
    place = where(is_nan(place), -1.0, place);
    place = options.align_corners ? (place + 1) * (0.5 * static_cast<double>(size - 1))
                                  : ((place + 1) * static_cast<double>(size) - 1) * 0.5;
    // All places far outside are alike, but the number of a place must fit into an integer.
    return zero_outside ? clamp(place, -2.0, static_cast<double>(size) + 1)
                        : clamp(place, 0.0, static_cast<double>(size - 1));
  };
  Tensor column = position(0, width), row = position(1, height);
  // The pixels at a row and a column, which hold whole numbers, times a weight [N, H', W'].
  auto read_at = [&](const Tensor &y, const Tensor &c, const Tensor &weight) {
    Tensor inside_y = clamp(y, 0.0, static_cast<double>(height - 1)),
           inside_x = clamp(c, 0.0, static_cast<double>(width - 1));
    Tensor index = (inside_y.detach().to(whole) * width + inside_x.detach().to(whole))
                       .reshape({at[0], 1, at[1] * at[2]});
    Tensor value = gather(pixels, 2, index.expand({at[0], from[1], at[1] * at[2]}))
                       .reshape({at[0], from[1], at[1], at[2]});
    // A pixel that stands in for one outside may be NaN or infinite, also times a weight of 0.
    Tensor inside = (inside_y == y) & (inside_x == c);
    return where(inside.unsqueeze(1), value, 0.0) * where(inside, weight, 0.0).unsqueeze(1);
  };
  Tensor result;
  if (options.mode == Resize::kNearest) {
    Tensor y = round(row), c = round(column);
    result = read_at(y, c, ones_like(y));
    // The result does not change where the grid does a little: its derivative by the grid is 0.
    if (places.grad)
      result = result + (0.0 * (row + column)).unsqueeze(1);
  } else {
    Tensor y = floor(row).detach(), c = floor(column).detach(), below = row - y, right = column - c;
    result = read_at(y, c, (1 - below) * (1 - right)) + read_at(y, c + 1, (1 - below) * right) +
             read_at(y + 1, c, below * (1 - right)) + read_at(y + 1, c + 1, below * right);
  }
  return result.to(image.dtype());
}

Tensor affine_grid(const Tensor &theta, const Shape &size, bool align_corners, Location location) {
  Session session("affine_grid", location);
  Var map = floating_only(theta, "theta");
  if (size.size() != 4 || map.dims() != Shape{size[0], 2, 3})
    fail(ErrorKind::kShape, "theta has shape " + to_string(map.dims()) + ", size is " +
                                to_string(size) + ": they must be [N, 2, 3] and {N, C, H, W}");
  DType wide = computing_dtype(map.dtype());
  auto centres = [&](int64_t n) {
    double end = align_corners ? 1 : 1 - 1 / static_cast<double>(std::max<int64_t>(n, 1));
    return align_corners && n == 1 ? zeros({1}, wide) : linspace(-end, end, n, wide);
  };
  Shape shape = {size[2], size[3]};
  Tensor column = centres(size[3]).reshape({1, size[3]}).expand(shape),
         row = centres(size[2]).reshape({size[2], 1}).expand(shape);
  Tensor points = stack({column, row, ones(shape, wide)}, -1).reshape({1, size[2] * size[3], 3});
  return matmul(points, theta.to(wide).mT())
      .reshape({size[0], size[2], size[3], 2})
      .to(map.dtype());
}

} // namespace weft
