#include "weft/nn/conv2d.h"

#include "weft/nn/convolution_init.h"
#include "weft/nn/init.h"

namespace weft::nn {

Conv2d::Conv2d(int64_t in, int64_t out, Pair kernel_size, Conv2dOptions options, Location location)
    : options_(options) {
  CallerScope scope(location);
  check_convolution("Conv2d", in, out, {kernel_size.height, kernel_size.width}, options.groups,
                    location);
  auto [w, b] = draw_convolution({out, in / options.groups, kernel_size.height, kernel_size.width},
                                 out, options.bias);
  weight = parameter("weight", std::move(w));
  if (options.bias)
    bias = parameter("bias", std::move(b));
}

Conv2d::Conv2d(Tensor w, Tensor b, Conv2dOptions options, Location location) : options_(options) {
  CallerScope scope(location);
  if (w.ndim() != 4 || (b.defined() && b.shape() != Shape{w.size(0)}))
    fail_at(location, ErrorKind::kShape,
            "Conv2d: the weight must be [out, in / groups, height, width] and the bias [out], they "
            "are " +
                to_string(w.shape()) + (b.defined() ? " and " + to_string(b.shape()) : ""));
  check_convolution("Conv2d", w.size(1) * options.groups, w.size(0), {w.size(2), w.size(3)},
                    options.groups, location);
  if (b.defined())
    init::submit({w, b}); // one program for both
  weight = parameter("weight", std::move(w));
  if (b.defined())
    bias = parameter("bias", std::move(b));
}

Tensor Conv2d::operator()(const Tensor &x, Location location) const {
  ModuleCall scope(*this, location);
  return weft::conv2d(x, weight, bias,
                      {.stride = options_.stride,
                       .padding = options_.padding,
                       .dilation = options_.dilation,
                       .groups = options_.groups});
}

ConvTranspose2d::ConvTranspose2d(int64_t in, int64_t out, Pair kernel_size,
                                 ConvTranspose2dOptions options, Location location)
    : options_(options) {
  CallerScope scope(location);
  check_convolution("ConvTranspose2d", in, out, {kernel_size.height, kernel_size.width},
                    options.groups, location);
  auto [w, b] = draw_convolution({in, out / options.groups, kernel_size.height, kernel_size.width},
                                 out, options.bias);
  weight = parameter("weight", std::move(w));
  if (options.bias)
    bias = parameter("bias", std::move(b));
}

Tensor ConvTranspose2d::operator()(const Tensor &x, Location location) const {
  ModuleCall scope(*this, location);
  return weft::conv_transpose2d(x, weight, bias,
                                {.stride = options_.stride,
                                 .padding = options_.padding,
                                 .output_padding = options_.output_padding,
                                 .groups = options_.groups,
                                 .dilation = options_.dilation});
}

} // namespace weft::nn
