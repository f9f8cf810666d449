// Convolutions and pooling of signals: images of height 1.
#include "weft/signals.h"

#include "frontend/ops/promotion.h"
#include "frontend/ops/windows.h"
#include "frontend/tensor/autocast.h"
#include "frontend/tensor/impl.h"
#include "weft/images.h"

namespace weft {

using namespace recorder;

namespace {

// Signals [N, C, L], or one, [C, L], as images of height 1. The functions on images would name
// shapes in their errors that the caller does not have.
Tensor raised(const Tensor &x) {
  const TypeInfo &type = *checked(x, "x")->type;
  if (type.ndim() != 2 && type.ndim() != 3)
    fail(ErrorKind::kShape, "x has shape " + to_string(type.dims) +
                                "; it must be [batch, channels, length], or without batch");
  want_floating(type);
  return x.unsqueeze(-2);
}

// The weight of a convolution of x.
Tensor raised_weight(const Tensor &weight, const Tensor &x, const char *layout) {
  const TypeInfo &type = *checked(weight, "weight")->type;
  if (type.ndim() != 3)
    fail(ErrorKind::kShape, "weight has shape " + to_string(type.dims) + "; it must be " + layout);
  if (const TypeInfo &signal = *checked(x, "x")->type;
      call_dtype(signal.dtype) != call_dtype(type.dtype))
    want_one_dtype(signal, "x", type, "weight");
  return weight.unsqueeze(-2);
}

// Checks here what the ops on images would refuse: their errors would name dims that the caller
// does not have.
void check_window(const Tensor &x, int64_t taps, int64_t stride, int64_t padding, int64_t dilation,
                  const char *what, bool ceil_mode = false) {
  want_of_window(what, taps, 1);
  want_of_window("stride", stride, 1);
  want_of_window("padding", padding, 0);
  want_of_window("dilation", dilation, 1);
  int64_t reach = dilation * (taps - 1) + 1, length = x.shape().back() + 2 * padding;
  if (reach > length + (ceil_mode ? stride - 1 : 0))
    fail(ErrorKind::kShape, "x has shape " + to_string(x.shape()) + ": with padding it is " +
                                std::to_string(length) + " long, and " + what + " reaches over " +
                                std::to_string(reach) +
                                " elements; choose a smaller one or more padding");
}

} // namespace

Tensor conv1d(const Tensor &x, const Tensor &weight, const Tensor &bias, Conv1dOptions options,
              Location location) {
  Session session("conv1d", location);
  Tensor image = raised(x),
         kernel = raised_weight(weight, x, "[out channels, in channels / groups, length]");
  const int64_t channels = x.shape()[x.shape().size() - 2];
  const Shape &given = weight.shape();
  check_window(x, given[2], options.stride, options.padding, options.dilation,
               "the kernel's length");
  if (options.groups < 1 || channels != given[1] * options.groups || given[0] % options.groups)
    fail(ErrorKind::kShape, "x has shape " + to_string(x.shape()) + ", weight has shape " +
                                to_string(given) + ", groups is " + std::to_string(options.groups) +
                                ": weight must be [out, " + std::to_string(channels) +
                                " / groups, length], and groups must divide out");
  return conv2d(image, kernel, bias,
                {.stride = {1, options.stride},
                 .padding = {0, options.padding},
                 .dilation = {1, options.dilation},
                 .groups = options.groups})
      .squeeze(-2);
}

Tensor conv_transpose1d(const Tensor &x, const Tensor &weight, const Tensor &bias,
                        ConvTranspose1dOptions options, Location location) {
  Session session("conv_transpose1d", location);
  Tensor image = raised(x),
         kernel = raised_weight(weight, x, "[in channels, out channels / groups, length]");
  want_of_window("stride", options.stride, 1);
  want_of_window("padding", options.padding, 0);
  want_of_window("output_padding", options.output_padding, 0);
  want_of_window("dilation", options.dilation, 1);
  return transposed_convolution(image, kernel, bias,
                                {.stride = {1, options.stride},
                                 .padding = {0, options.padding},
                                 .output_padding = {0, options.output_padding},
                                 .groups = options.groups,
                                 .dilation = {1, options.dilation}},
                                x.shape(), weight.shape())
      .squeeze(-2);
}

Tensor max_pool1d(const Tensor &x, int64_t kernel_size, MaxPool1dOptions options,
                  Location location) {
  Session session("max_pool1d", location);
  Tensor image = raised(x);
  int64_t stride = options.stride.value_or(kernel_size);
  check_window(x, kernel_size, stride, options.padding, options.dilation, "kernel_size",
               options.ceil_mode);
  return max_pool2d(image, {1, kernel_size},
                    {.stride = Pair(1, stride),
                     .padding = {0, options.padding},
                     .dilation = {1, options.dilation},
                     .ceil_mode = options.ceil_mode})
      .squeeze(-2);
}

Tensor avg_pool1d(const Tensor &x, int64_t kernel_size, AvgPool1dOptions options,
                  Location location) {
  Session session("avg_pool1d", location);
  Tensor image = raised(x);
  int64_t stride = options.stride.value_or(kernel_size);
  check_window(x, kernel_size, stride, options.padding, 1, "kernel_size", options.ceil_mode);
  return avg_pool2d(image, {1, kernel_size},
                    {.stride = Pair(1, stride),
                     .padding = {0, options.padding},
                     .ceil_mode = options.ceil_mode,
                     .count_include_pad = options.count_include_pad})
      .squeeze(-2);
}

Tensor adaptive_avg_pool1d(const Tensor &x, int64_t output_size, Location location) {
  Session session("adaptive_avg_pool1d", location);
  Tensor image = raised(x);
  const std::string size = "output_size is " + std::to_string(output_size);
  const int64_t length = x.shape().back();
  if (output_size < 0 || length < 1)
    fail(ErrorKind::kValue, "x has shape " + to_string(x.shape()) + ", " + size +
                                "; x must have elements, and output_size must not be negative");
  want_adaptive_table(output_size, length, x.shape(), size);
  return adaptive_avg_pool2d(image, {1, output_size}).squeeze(-2);
}

} // namespace weft
