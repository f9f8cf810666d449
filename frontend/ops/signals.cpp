// Convolutions and pooling of signals: images of height 1.
#include "weft/signals.h"

#include "frontend/ops/promotion.h"
#include "frontend/tensor/impl.h"
#include "weft/images.h"

namespace weft {

using namespace recorder;

namespace {

// x [N, C, L] as [N, C, 1, L].
Tensor raised(const Tensor &x, const char *argument, const char *layout) {
  const TypeInfo &type = *checked(x, argument)->type;
  if (type.ndim() != 3)
    fail(ErrorKind::kShape,
         std::string(argument) + " has shape " + to_string(type.dims) + "; it must be " + layout);
  return x.unsqueeze(2);
}

constexpr const char *kSignal = "[batch, channels, length]";

// Checks here what the ops on images would refuse: their errors would name dims that the caller
// does not have.
void check_window(const Tensor &x, int64_t taps, int64_t stride, int64_t padding, int64_t dilation,
                  const char *what) {
  for (auto [value, argument, least] :
       {std::tuple(taps, what, 1), std::tuple(stride, "stride", 1),
        std::tuple(padding, "padding", 0), std::tuple(dilation, "dilation", 1)})
    if (value < least)
      fail(ErrorKind::kValue, std::string(argument) + " is " + std::to_string(value) +
                                  "; it must be at least " + std::to_string(least));
  int64_t reach = dilation * (taps - 1) + 1, length = x.shape()[2] + 2 * padding;
  if (reach > length)
    fail(ErrorKind::kShape, "x has shape " + to_string(x.shape()) + ": with padding it is " +
                                std::to_string(length) + " long, and " + what + " reaches over " +
                                std::to_string(reach) +
                                " elements; choose a smaller one or more padding");
}

} // namespace

Tensor conv1d(const Tensor &x, const Tensor &weight, const Tensor &bias, Conv1dOptions options,
              Location location) {
  Session session("conv1d", location);
  Tensor image = raised(x, "x", kSignal),
         kernel = raised(weight, "weight", "[out channels, in channels / groups, length]");
  const Shape &given = weight.shape();
  check_window(x, given[2], options.stride, options.padding, options.dilation,
               "the kernel's length");
  if (options.groups < 1 || x.shape()[1] != given[1] * options.groups || given[0] % options.groups)
    fail(ErrorKind::kShape, "x has shape " + to_string(x.shape()) + ", weight has shape " +
                                to_string(given) + ", groups is " + std::to_string(options.groups) +
                                ": weight must be [out, " + std::to_string(x.shape()[1]) +
                                " / groups, length], and groups must divide out");
  return conv2d(image, kernel, bias,
                {.stride = {1, options.stride},
                 .padding = {0, options.padding},
                 .dilation = {1, options.dilation},
                 .groups = options.groups})
      .squeeze(2);
}

Tensor conv_transpose1d(const Tensor &x, const Tensor &weight, const Tensor &bias,
                        ConvTranspose1dOptions options, Location location) {
  Session session("conv_transpose1d", location);
  Tensor image = raised(x, "x", kSignal),
         kernel = raised(weight, "weight", "[in channels, out channels / groups, length]");
  return conv_transpose2d(image, kernel, bias,
                          {.stride = {1, options.stride},
                           .padding = {0, options.padding},
                           .output_padding = {0, options.output_padding},
                           .groups = options.groups,
                           .dilation = {1, options.dilation}})
      .squeeze(2);
}

Tensor max_pool1d(const Tensor &x, int64_t kernel_size, MaxPool1dOptions options,
                  Location location) {
  Session session("max_pool1d", location);
  Tensor image = raised(x, "x", kSignal);
  int64_t stride = options.stride.value_or(kernel_size);
  check_window(x, kernel_size, stride, options.padding, options.dilation, "kernel_size");
  return max_pool2d(image, {1, kernel_size},
                    {.stride = Pair(1, stride),
                     .padding = {0, options.padding},
                     .dilation = {1, options.dilation},
                     .ceil_mode = options.ceil_mode})
      .squeeze(2);
}

Tensor avg_pool1d(const Tensor &x, int64_t kernel_size, AvgPool1dOptions options,
                  Location location) {
  Session session("avg_pool1d", location);
  Tensor image = raised(x, "x", kSignal);
  int64_t stride = options.stride.value_or(kernel_size);
  check_window(x, kernel_size, stride, options.padding, 1, "kernel_size");
  return avg_pool2d(image, {1, kernel_size},
                    {.stride = Pair(1, stride),
                     .padding = {0, options.padding},
                     .ceil_mode = options.ceil_mode,
                     .count_include_pad = options.count_include_pad})
      .squeeze(2);
}

Tensor adaptive_avg_pool1d(const Tensor &x, int64_t output_size, Location location) {
  Session session("adaptive_avg_pool1d", location);
  return adaptive_avg_pool2d(raised(x, "x", kSignal), {1, output_size}).squeeze(2);
}

} // namespace weft
