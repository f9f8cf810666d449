// Convolutions, pooling, normalization and resizing of images.
#include "weft/images.h"

#include <algorithm>
#include <cmath>

#include "frontend/ops/promotion.h"
#include "frontend/ops/windows.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/tensor/impl.h"
#include "weft/autograd.h"

namespace weft {

using namespace recorder;

namespace {

using IntPair = std::array<int64_t, 2>;

IntPair ints(Pair pair) {
  return {pair.height, pair.width};
}

// x, which must be floating, as a batch: where x is one image, of one image.
Var images_of(const Tensor &x) {
  Var var = read(x, "x");
  if (var.ndim() != 3 && var.ndim() != 4)
    fail(ErrorKind::kShape, "x has shape " + to_string(var.dims()) +
                                "; it must be [batch, channels, height, width], or without batch");
  want_floating(var.type());
  if (var.ndim() == 4)
    return var;
  Shape raised = var.dims();
  raised.insert(raised.begin(), 1);
  return emit_reshape(var, raised);
}

// What a function made of images_of(x): without batch where x has none.
Tensor batched_as(const Tensor &x, const Var &result) {
  if (x.ndim() == 4)
    return wrap(result);
  return wrap(emit_reshape(result, Shape(result.dims().begin() + 1, result.dims().end())));
}

// [C] as it broadcasts over [N, C, ...].
Var by_channel(const Var &vector, const Shape &dims) {
  Shape raised(dims.size() - 1, 1);
  raised[0] = dims[1];
  return emit_broadcast(emit_reshape(vector, raised), dims);
}

// A vector of this dtype with one number a channel of x.
Var channel_vector(const Tensor &tensor, const char *argument, const Var &x, DType dtype) {
  Var var = read(tensor, argument);
  bool fits = var.ndim() == 1 && var.dims()[0] == x.dims()[1];
  if (!fits || var.dtype() != dtype)
    fail(fits ? ErrorKind::kDType : ErrorKind::kShape,
         "x is " + describe(x) + ", " + argument + " is " + describe(var) + "; it must be " +
             name(dtype) + " " + to_string(Shape{x.dims()[1]}) +
             ", a number for each channel of x" +
             (dtype == x.dtype() ? "" : ", as weight and the statistics all are, or none"));
  return var;
}

// convolve(x, weight) plus the bias, if there is one, rounded once.
template <typename Convolve>
Var with_bias(const Var &x, const Var &weight, const Tensor &bias, Convolve convolve) {
  if (!bias.defined())
    return convolve(x, weight);
  Var result = convolve(widened(x), widened(weight));
  Var b = bias_of(bias, result.dims()[1], x.dtype());
  return rounded(emit_add(result, by_channel(widened(b), result.dims())), x.dtype());
}

struct ImageAndWeight {
  Var x, weight;
};
ImageAndWeight image_and_weight(const Tensor &x, const Tensor &weight, const char *layout) {
  Var input = images_of(x), w = read(weight, "weight");
  if (w.ndim() != 4)
    fail(ErrorKind::kShape, "weight has shape " + to_string(w.dims()) + "; it must be " + layout);
  want_one_dtype(input.type(), "x", w.type(), "weight");
  return {std::move(input), std::move(w)};
}

} // namespace

//===-- Convolution ---------------------------------------------------------------------------===//

Tensor conv2d(const Tensor &x, const Tensor &weight, const Tensor &bias, Conv2dOptions options,
              Location location) {
  Session session("conv2d", location);
  auto [input, w] =
      image_and_weight(x, weight, "[out channels, in channels / groups, height, width]");
  want_of_window("stride", options.stride, 1);
  want_of_window("padding", options.padding, 0);
  want_of_window("dilation", options.dilation, 1);
  int64_t channels = input.dims()[1], groups = options.groups;
  if (groups >= 1 && w.dims()[1] * groups != channels)
    fail(ErrorKind::kShape, "x has shape " + to_string(x.shape()) + ", weight has shape " +
                                to_string(w.dims()) + ": weight is of " +
                                std::to_string(w.dims()[1] * groups) + " channels" +
                                (groups > 1 ? " in " + std::to_string(groups) + " groups" : "") +
                                ", x has " + std::to_string(channels));
  // The op's own rule checks the rest.
  return batched_as(x, with_bias(input, w, bias, [&](const Var &image, const Var &kernel) {
                      return emit_conv2d(image, kernel, ints(options.stride), ints(options.padding),
                                         ints(options.dilation), options.groups);
                    }));
}

Tensor conv_transpose2d(const Tensor &x, const Tensor &weight, const Tensor &bias,
                        ConvTranspose2dOptions options, Location location) {
  Session session("conv_transpose2d", location);
  return transposed_convolution(x, weight, bias, options, checked(x, "x")->type->dims,
                                checked(weight, "weight")->type->dims);
}

Tensor recorder::transposed_convolution(const Tensor &x, const Tensor &weight, const Tensor &bias,
                                        const ConvTranspose2dOptions &options, const Shape &x_shape,
                                        const Shape &weight_shape) {
  auto [input, w] =
      image_and_weight(x, weight, "[in channels, out channels / groups, height, width]");
  std::string both =
      "x has shape " + to_string(x_shape) + ", weight has shape " + to_string(weight_shape);
  want_of_window("stride", options.stride, 1);
  want_of_window("padding", options.padding, 0);
  want_of_window("output_padding", options.output_padding, 0);
  want_of_window("dilation", options.dilation, 1);
  int64_t channels = input.dims()[1];
  if (options.groups < 1 || channels % options.groups)
    fail(ErrorKind::kShape, both + ": groups, " + std::to_string(options.groups) +
                                ", must divide x's " + std::to_string(channels) + " channels");
  if (w.dims()[0] != channels)
    fail(ErrorKind::kShape, both + ": dimension 0 of weight must be " + std::to_string(channels) +
                                ", the channels of x");
  Shape result{input.dims()[0], w.dims()[1] * options.groups};
  auto extend = [&](int64_t dim, int64_t stride, int64_t padding, int64_t more, int64_t dilation) {
    if (more >= stride && more >= dilation)
      fail(ErrorKind::kValue, "output_padding is " + std::to_string(more) + ", stride " +
                                  std::to_string(stride) + ", dilation " +
                                  std::to_string(dilation) +
                                  ": output_padding must be less than one of the others");
    int64_t taps = w.dims()[dim], size = input.dims()[dim];
    int64_t extended = (size - 1) * stride - 2 * padding + dilation * (taps - 1) + more + 1;
    if (taps < 1 || size < 1 || extended < 1)
      fail(ErrorKind::kShape, both + ": the last " + (dim == 2 ? "but one " : "") +
                                  "dimension of the result would have size " +
                                  std::to_string(extended));
    result.push_back(extended);
  };
  extend(2, options.stride.height, options.padding.height, options.output_padding.height,
         options.dilation.height);
  extend(3, options.stride.width, options.padding.width, options.output_padding.width,
         options.dilation.width);
  // A result of which a convolution would give more pixels than x has is cut out of the one without
  // padding, and no pixel reaches what lies behind that. Zeros in place of those pixels would not
  // do: of a weight that is NaN they make NaN.
  Shape computed = result;
  IntPair padding = ints(options.padding), stride = ints(options.stride),
          dilation = ints(options.dilation), more = ints(options.output_padding);
  for (size_t i = 0; i < 2; ++i)
    if (more[i] >= stride[i]) {
      computed[2 + i] =
          (input.dims()[2 + i] - 1) * stride[i] + dilation[i] * (w.dims()[2 + i] - 1) + 1;
      padding[i] = 0;
    }
  auto convolve = [&](const Var &image, const Var &kernel) {
    Var made = emit_conv2d_input_gradient_as(image, kernel,
                                             type_info(image.dtype(), computed, image.device()),
                                             stride, padding, dilation, options.groups);
    if (more[0] < stride[0] && more[1] < stride[1])
      return made;
    Tensor part = wrap(std::move(made));
    Shape behind(2, 0);
    for (size_t i = 0; i < 2; ++i)
      if (more[i] >= stride[i]) {
        int64_t dim = static_cast<int64_t>(2 + i), size = computed[2 + i],
                start = std::min(ints(options.padding)[i], size),
                count = std::min(result[2 + i], size - start);
        part = part.narrow(dim, start, count);
        behind[i] = result[2 + i] - count;
      }
    return read(pad(part, {0, behind[1], 0, behind[0]}), "x");
  };
  return batched_as(x, with_bias(input, w, bias, convolve));
}

//===-- Pooling -------------------------------------------------------------------------------===//

namespace {

std::array<Var, 2> largest_of_windows(const Tensor &x, Pair kernel_size,
                                      const MaxPool2dOptions &options) {
  Var images = images_of(x);
  Pair stride = options.stride.value_or(kernel_size);
  want_of_window("kernel_size", kernel_size, 1);
  want_of_window("stride", stride, 1);
  want_of_window("padding", options.padding, 0);
  want_of_window("dilation", options.dilation, 1);
  return emit_max_pool2d(images, ints(kernel_size), ints(stride), ints(options.padding),
                         ints(options.dilation), options.ceil_mode);
}

} // namespace

std::pair<Tensor, Tensor> max_pool2d_with_indices(const Tensor &x, Pair kernel_size,
                                                  MaxPool2dOptions options, Location location) {
  Session session("max_pool2d_with_indices", location);
  auto [largest, indices] = largest_of_windows(x, kernel_size, options);
  return {batched_as(x, largest), batched_as(x, indices)};
}

Tensor max_pool2d(const Tensor &x, Pair kernel_size, MaxPool2dOptions options, Location location) {
  Session session("max_pool2d", location);
  return batched_as(x, largest_of_windows(x, kernel_size, options)[0]);
}

Tensor avg_pool2d(const Tensor &x, Pair kernel_size, AvgPool2dOptions options, Location location) {
  Session session("avg_pool2d", location);
  Var images = images_of(x);
  Pair stride = options.stride.value_or(kernel_size);
  want_of_window("kernel_size", kernel_size, 1);
  want_of_window("stride", stride, 1);
  want_of_window("padding", options.padding, 0);
  return batched_as(x,
                    emit_avg_pool2d(images, ints(kernel_size), ints(stride), ints(options.padding),
                                    options.ceil_mode, options.count_include_pad));
}

namespace {

// x with the means of `to` windows in place of the elements along dim: of elements floor(i n / to)
// to ceil((i + 1) n / to) of n.
Tensor averaged(const Tensor &x, size_t dim, int64_t to) {
  Shape shape = x.shape();
  int64_t from = shape[dim], axis = static_cast<int64_t>(dim);
  if (from == to)
    return x;
  if (to == 0)
    return x.narrow(axis, 0, 0);
  std::vector<int64_t> starts, counts;
  for (int64_t i = 0; i < to; ++i) {
    starts.push_back(i * from / to);
    counts.push_back(((i + 1) * from + to - 1) / to - starts.back());
  }
  int64_t most = *std::max_element(counts.begin(), counts.end());
  shape[dim] = to;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(dim) + 1, most);
  if (to * most == from)
    return mean(x.reshape(shape), axis + 1);
  // Windows differ in size or overlap. What a shorter one has too many of is left out by a choice:
  // times 0 it would spoil the sum where it is NaN or infinite.
  Shape last(shape.size() - dim - 2, 1), each = {to, 1};
  each.insert(each.end(), last.begin(), last.end());
  Tensor start = Tensor::from(starts, {to, 1}), count = Tensor::from(counts, each);
  Tensor at = clamp(start + arange(most), 0, from - 1).reshape({to * most});
  last.insert(last.begin(), most);
  Tensor inside = arange(most).reshape(last) < count;
  Tensor windows = index_select(x, axis, at).reshape(shape);
  return sum(where(inside, windows, 0), axis + 1) / count.squeeze(1).to(x.dtype());
}

} // namespace

Tensor adaptive_avg_pool2d(const Tensor &x, Pair output_size, Location location) {
  Session session("adaptive_avg_pool2d", location);
  Var var = images_of(x);
  int64_t height = var.dims()[2], width = var.dims()[3];
  if (output_size.height < 0 || output_size.width < 0 || height < 1 || width < 1)
    fail(ErrorKind::kValue, "x has shape " + to_string(x.shape()) + ", output_size is " +
                                show(output_size) +
                                "; x must have pixels, and output_size must not be negative");
  auto divides = [](int64_t part, int64_t whole) {
    return part > 0 && whole % part == 0;
  };
  if (divides(output_size.height, height) && divides(output_size.width, width)) {
    IntPair window = {height / output_size.height, width / output_size.width};
    return batched_as(x, emit_avg_pool2d(var, window, window, IntPair{}));
  }
  want_adaptive_table(output_size.height, height, x.shape(), "output_size is " + show(output_size));
  want_adaptive_table(output_size.width, width, x.shape(), "output_size is " + show(output_size));
  // Rows first: their sums add up whole rows, and leave less to choose columns from.
  Tensor means = averaged(wrap(widened(var)), 2, output_size.height);
  return batched_as(x, rounded(read(averaged(means, 3, output_size.width), "x"), var.dtype()));
}

//===-- Normalization -------------------------------------------------------------------------===//

Tensor batch_norm(const Tensor &x, Tensor running_mean, Tensor running_variance,
                  const Tensor &weight, const Tensor &bias, BatchNormOptions options,
                  Location location) {
  Session session("batch_norm", location);
  Var var = read(x, "x");
  if (var.ndim() < 2)
    fail(ErrorKind::kShape,
         "x has shape " + to_string(var.dims()) + "; it must be [batch, channels, ...]");
  want_floating(var.type());
  int64_t count = 1;
  for (int64_t i = 0; i < var.ndim(); ++i)
    count *= i == 1 ? 1 : var.dims()[i];
  // Parameters and statistics of 16-bit images may be float32, as PyTorch has it: then all is
  // computed in float32 and the result rounded once.
  const DType given = var.dtype();
  DType computed = given;
  if (weight.defined() ? checked(weight, "weight")->type->dtype == DType::kFloat32
                       : running_mean.defined() &&
                             checked(running_mean, "running_mean")->type->dtype == DType::kFloat32)
    computed = computing_dtype(given);
  Var w, b, mean, variance;
  if (weight.defined())
    w = channel_vector(weight, "weight", var, computed);
  if (bias.defined())
    b = channel_vector(bias, "bias", var, computed);
  if (running_mean.defined())
    mean = channel_vector(running_mean, "running_mean", var, computed);
  if (running_variance.defined())
    variance = channel_vector(running_variance, "running_variance", var, computed);
  if (computed != given)
    var = widened(var);
  if (!options.training) {
    if (!mean || !variance)
      fail(ErrorKind::kValue, "running_mean or running_variance is undefined; without training "
                              "they are what x is normalized with");
    return wrap(rounded(emit_batch_norm_inference(var, mean, variance, w, b, options.eps), given));
  }
  if (count == 1)
    fail(ErrorKind::kShape, "x has shape " + to_string(var.dims()) +
                                ": training needs more than one element a channel");
  if (count == 0) { // as PyTorch: nothing is normalized, and no statistics move
    Shape channels(static_cast<size_t>(var.ndim()), 1);
    channels[1] = var.dims()[1];
    Tensor result = wrap(var);
    if (w)
      result = result * wrap(w).reshape(channels);
    if (b)
      result = result + wrap(b).reshape(channels);
    return result.to(given);
  }
  // A variance leaves the range of float16 sooner than x does.
  if (var.dtype() == DType::kFloat16) {
    var = widened(var);
    w = w ? widened(w) : w;
    b = b ? widened(b) : b;
  }
  auto [normalized, batch_mean, batch_variance] = emit_batch_norm(var, w, b, options.eps);
  auto move = [&](const Tensor &running, const Var &current, double factor) {
    NoGrad no_grad;
    Tensor moved = wrap_quietly(Var{current.value});
    Tensor(running)
        .mul_(1 - options.momentum, location)
        .add_(mul(moved, options.momentum * factor, location), location);
  };
  if (mean)
    move(running_mean, batch_mean, 1);
  if (variance)
    move(running_variance, batch_variance,
         static_cast<double>(count) / static_cast<double>(count - 1));
  return wrap(rounded(std::move(normalized), given));
}

Tensor group_norm(const Tensor &x, int64_t groups, const Tensor &weight, const Tensor &bias,
                  double eps, Location location) {
  Session session("group_norm", location);
  Var var = read(x, "x");
  if (var.ndim() < 2)
    fail(ErrorKind::kShape,
         "x has shape " + to_string(var.dims()) + "; it must be [batch, channels, ...]");
  want_floating(var.type());
  int64_t channels = var.dims()[1], pixels = 1;
  for (int64_t i = 2; i < var.ndim(); ++i)
    pixels *= var.dims()[i];
  if (groups < 1 || channels % groups)
    fail(ErrorKind::kValue, "groups is " + std::to_string(groups) + "; it must divide the " +
                                std::to_string(channels) + " channels of x, " +
                                to_string(var.dims()));
  Var rows = emit_reshape(widened(var), {var.dims()[0], groups, channels / groups * pixels});
  Var y = emit_reshape(emit_layer_norm(rows, Var(), Var(), 1, eps)[0], var.dims());
  if (weight.defined())
    y = emit_mul(
        y, by_channel(widened(channel_vector(weight, "weight", var, var.dtype())), var.dims()));
  if (bias.defined())
    y = emit_add(y,
                 by_channel(widened(channel_vector(bias, "bias", var, var.dtype())), var.dims()));
  return wrap(rounded(y, var.dtype()));
}

Tensor rms_norm(const Tensor &x, const Shape &normalized_shape, const Tensor &weight, double eps,
                Location location) {
  Session session("rms_norm", location);
  Var given = floating_only(x), var = widened(given);
  size_t rank = normalized_shape.size();
  if (rank == 0 || rank > var.dims().size() ||
      !std::equal(normalized_shape.begin(), normalized_shape.end(),
                  var.dims().end() - static_cast<std::ptrdiff_t>(rank)))
    fail(ErrorKind::kShape, "x has shape " + to_string(var.dims()) +
                                ", which does not end with normalized_shape " +
                                to_string(normalized_shape));
  Shape dims, kept = var.dims();
  for (size_t i = kept.size() - rank; i < kept.size(); ++i) {
    dims.push_back(static_cast<int64_t>(i));
    kept[i] = 1;
  }
  Var squares = emit_reshape(emit_reduce_mean(emit_mul(var, var), dims), kept);
  Var scale = emit_rsqrt(emit_add(squares, broadcast(emit_constant(eps, var.dtype()), kept)));
  Var y = emit_mul(var, emit_broadcast(scale, var.dims()));
  if (weight.defined()) {
    Var w = read(weight, "weight");
    if (w.dims() != normalized_shape || w.dtype() != given.dtype())
      fail(w.dims() != normalized_shape ? ErrorKind::kShape : ErrorKind::kDType,
           "weight is " + describe(w) + "; it must be " + name(given.dtype()) + " " +
               to_string(normalized_shape));
    y = emit_mul(y, emit_broadcast(widened(w), var.dims()));
  }
  return wrap(rounded(y, given.dtype()));
}

//===-- Resizing ------------------------------------------------------------------------------===//

namespace {

// x resized along one dim of its last two.
Tensor resize_dim(const Tensor &x, int64_t dim, int64_t to, ResizeOptions options,
                  Location location) {
  int64_t from = x.shape()[static_cast<size_t>(dim)];
  if (from == to)
    return x;
  std::vector<int32_t> low, high;
  std::vector<double> weights;
  for (int64_t i = 0; i < to; ++i) {
    if (options.mode == Resize::kNearest) {
      low.push_back(static_cast<int32_t>(std::min(from - 1, i * from / to)));
      continue;
    }
    double scale = options.align_corners
                       ? (to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0)
                       : static_cast<double>(from) / static_cast<double>(to);
    double at = options.align_corners ? static_cast<double>(i) * scale
                                      : std::max(0.0, (static_cast<double>(i) + 0.5) * scale - 0.5);
    int64_t first = std::min(from - 1, static_cast<int64_t>(at));
    low.push_back(static_cast<int32_t>(first));
    high.push_back(static_cast<int32_t>(std::min(from - 1, first + 1)));
    weights.push_back(at - static_cast<double>(first));
  }
  Tensor first = index_select(x, dim, Tensor::from(low, location), location);
  if (options.mode == Resize::kNearest)
    return first;
  Tensor second = index_select(x, dim, Tensor::from(high, location), location);
  Tensor weight =
      Tensor::from(weights, dim == 2 ? Shape{to, 1} : Shape{to}, location).to(x.dtype(), location);
  return first * (1 - weight) + second * weight;
}

// Keys' cubic convolution at distance d; a: its slope at 1.
double cubic(double d, double a) {
  d = std::abs(d);
  if (d < 1)
    return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((d - 5) * d + 8) * d * a - 4 * a : 0;
}

// What of the `from` pixels along a dim makes each of the `to` ones: a matrix [to, from], row by
// row. PyTorch's filters: cubic ones have the slope -0.75, with antialias -0.5.
std::vector<double> resize_weights(int64_t from, int64_t to, ResizeOptions options) {
  std::vector<double> matrix(static_cast<size_t>(from * to));
  bool is_cubic = options.mode == Resize::kBicubic;
  double scale = options.align_corners
                     ? (to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0)
                     : static_cast<double>(from) / static_cast<double>(to);
  double stretch = options.antialias ? std::max(scale, 1.0) : 1, reach = is_cubic ? 2 : 1;
  for (int64_t i = 0; i < to; ++i) {
    // Filters that grow have their centers between pixels in any case, as PyTorch's have.
    double half = options.align_corners && !options.antialias ? 0 : 0.5;
    double at = (static_cast<double>(i) + half) * scale - half, total = 0;
    auto first = static_cast<int64_t>(std::floor(at - reach * stretch)) + 1,
         last = static_cast<int64_t>(std::floor(at + reach * stretch));
    double *row = matrix.data() + i * from;
    for (int64_t j = first; j <= last; ++j) {
      double distance = (static_cast<double>(j) - at) / stretch;
      double weight = is_cubic ? cubic(distance, options.antialias ? -0.5 : -0.75)
                               : std::max(0.0, 1 - std::abs(distance));
      // Without antialias the border stands for what lies beyond it.
      if (options.antialias && (j < 0 || j >= from))
        continue;
      row[std::clamp<int64_t>(j, 0, from - 1)] += weight;
      total += weight;
    }
    for (int64_t j = 0; options.antialias && j < from; ++j)
      row[j] /= total;
  }
  return matrix;
}

// x resized along one dim of its last two, as a product.
Tensor resize_by_product(const Tensor &x, int64_t dim, int64_t to, ResizeOptions options,
                         Location location) {
  int64_t from = x.shape()[static_cast<size_t>(dim)];
  if (from == to)
    return x;
  Tensor weights = Tensor::from(resize_weights(from, to, options), Shape{to, from}, location)
                       .to(x.dtype(), location);
  return dim == 2 ? matmul(weights, x) : matmul(x, weights.mT());
}

} // namespace

Tensor resize(const Tensor &x, Pair size, ResizeOptions options, Location location) {
  Session session("resize", location);
  Var var = read(x, "x");
  if (var.ndim() != 4)
    fail(ErrorKind::kShape,
         "x has shape " + to_string(var.dims()) + "; it must be [batch, channels, height, width]");
  if (options.mode != Resize::kNearest)
    want_floating(var.type());
  if (size.height < 1 || size.width < 1 || var.dims()[2] < 1 || var.dims()[3] < 1)
    fail(ErrorKind::kValue, "x has shape " + to_string(var.dims()) + ", size is " + show(size) +
                                "; both must have pixels");
  if (std::max(var.dims()[2], var.dims()[3]) > std::numeric_limits<int32_t>::max())
    fail(ErrorKind::kShape,
         "x has shape " + to_string(var.dims()) + ", whose positions int32 does not hold");
  want_table(size.height, 1, x.shape(), "size is " + show(size));
  want_table(size.width, 1, x.shape(), "size is " + show(size));
  bool interpolates = options.mode == Resize::kBilinear || options.mode == Resize::kBicubic;
  if ((options.align_corners || options.antialias) && !interpolates)
    fail(ErrorKind::kValue, std::string(options.align_corners ? "align_corners" : "antialias") +
                                " is for bilinear and bicubic resizing");
  if (options.mode == Resize::kArea)
    return adaptive_avg_pool2d(x, size, location);
  // Interpolation is several ops and rounds once; nearest copies elements.
  Tensor wide = options.mode == Resize::kNearest ? x : x.to(computing_dtype(var.dtype()), location);
  bool by_product = options.mode == Resize::kBicubic || options.antialias;
  auto along = by_product ? resize_by_product : resize_dim;
  Tensor high = along(wide, 2, size.height, options, location);
  return of_its_own(along(high, 3, size.width, options, location).to(var.dtype(), location), x);
}

} // namespace weft
