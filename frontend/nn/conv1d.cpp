#include "weft/nn/conv1d.h"

#include "weft/nn/convolution_init.h"

namespace weft::nn {

Conv1d::Conv1d(int64_t in, int64_t out, int64_t kernel_size, Conv1dOptions options,
               Location location)
    : options_(options) {
  CallerScope scope(location);
  check_convolution("Conv1d", in, out, {kernel_size}, options.groups, location);
  auto [w, b] = draw_convolution({out, in / options.groups, kernel_size}, out, options.bias);
  weight = parameter("weight", std::move(w));
  if (options.bias)
    bias = parameter("bias", std::move(b));
}

Tensor Conv1d::operator()(const Tensor &x, Location location) const {
  ModuleCall scope(*this, location);
  return weft::conv1d(x, weight, bias,
                      {.stride = options_.stride,
                       .padding = options_.padding,
                       .dilation = options_.dilation,
                       .groups = options_.groups});
}

ConvTranspose1d::ConvTranspose1d(int64_t in, int64_t out, int64_t kernel_size,
                                 ConvTranspose1dOptions options, Location location)
    : options_(options) {
  CallerScope scope(location);
  check_convolution("ConvTranspose1d", in, out, {kernel_size}, options.groups, location);
  auto [w, b] = draw_convolution({in, out / options.groups, kernel_size}, out, options.bias);
  weight = parameter("weight", std::move(w));
  if (options.bias)
    bias = parameter("bias", std::move(b));
}

Tensor ConvTranspose1d::operator()(const Tensor &x, Location location) const {
  ModuleCall scope(*this, location);
  return weft::conv_transpose1d(x, weight, bias,
                                {.stride = options_.stride,
                                 .padding = options_.padding,
                                 .output_padding = options_.output_padding,
                                 .groups = options_.groups,
                                 .dilation = options_.dilation});
}

} // namespace weft::nn
