#include "weft/models/mobile_block.h"

namespace weft::models {

MobileBlock::MobileBlock(int64_t in, int64_t expanded, int64_t out, MobileBlockOptions options,
                         Location location)
    : drop_(options.drop_rate, location), adds_(options.stride == 1 && in == out) {
  auto options_of = [&](Activation activation, int64_t stride, int64_t groups) {
    return ConvNormOptions{.stride = stride,
                           .groups = groups,
                           .activation = activation,
                           .eps = options.eps,
                           .momentum = options.momentum};
  };
  if (expanded != in)
    block_.append(ConvNorm(in, expanded, 1, options_of(options.activation, 1, 1), location),
                  location);
  block_.append(ConvNorm(expanded, expanded, options.kernel_size,
                         options_of(options.activation, options.stride, expanded), location),
                location);
  if (options.squeezed)
    block_.append(
        SqueezeExcitation(expanded, options.squeezed, options.inner, options.gate, location),
        location);
  if (options.flat) {
    block_.append(convolution(expanded, out, 1, {.bias = false}, location), location);
    block_.append(batch_norm(out, options.eps, options.momentum, location), location);
  } else {
    block_.append(ConvNorm(expanded, out, 1, options_of(Activation::kNone, 1, 1), location),
                  location);
  }
  child(options.flat ? "conv" : "block", block_, location);
  child("stochastic_depth", drop_, location);
}

Tensor MobileBlock::operator()(const Tensor &x, Location location) const {
  nn::ModuleCall scope(*this, location);
  return adds_ ? x + drop_(block_(x)) : block_(x);
}

} // namespace weft::models
