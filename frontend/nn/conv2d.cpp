#include "weft/nn/conv2d.h"

#include <cmath>

#include "weft/nn/init.h"

namespace weft::nn {

namespace {

void check_sizes(const char *module, int64_t in, int64_t out, Pair kernel, int64_t groups, Location location) {
  std::string given = std::to_string(in) + " channels to " + std::to_string(out) + ", a kernel of " + std::to_string(kernel.height) +
                      " x " + std::to_string(kernel.width) + ", " + std::to_string(groups) + " groups";
  if (in < 1 || out < 1 || kernel.height < 1 || kernel.width < 1 || groups < 1)
    throw Error(ErrorKind::kValue, std::string(module) + ": sizes must be at least 1, they are " + given, CallerScope::resolve(location));
  if (in % groups || out % groups)
    throw Error(ErrorKind::kValue, std::string(module) + ": groups must divide both channel counts, they are " + given,
                CallerScope::resolve(location));
}

// The weight and, unless it is left out, the bias, drawn by one program.
std::pair<Tensor, Tensor> draw(const Shape &shape, int64_t out, bool bias) {
  Tensor weight = init::kaiming_uniform(shape, std::sqrt(5.0));
  if (!bias) return {weight, Tensor()};
  Tensor drawn = init::uniform({out}, 1 / std::sqrt(init::fans(shape).in));
  init::submit({weight, drawn});
  return {weight, drawn};
}

} // namespace

Conv2d::Conv2d(int64_t in, int64_t out, Pair kernel_size, Conv2dOptions options, Location location) : options_(options) {
  CallerScope scope(location);
  check_sizes("Conv2d", in, out, kernel_size, options.groups, location);
  auto [w, b] = draw({out, in / options.groups, kernel_size.height, kernel_size.width}, out, options.bias);
  weight = parameter("weight", std::move(w));
  if (options.bias) bias = parameter("bias", std::move(b));
}

Tensor Conv2d::operator()(const Tensor &x, Location location) const {
  CallerScope scope(location);
  return weft::conv2d(x, weight, bias,
                      {.stride = options_.stride, .padding = options_.padding, .dilation = options_.dilation, .groups = options_.groups});
}

ConvTranspose2d::ConvTranspose2d(int64_t in, int64_t out, Pair kernel_size, ConvTranspose2dOptions options, Location location)
    : options_(options) {
  CallerScope scope(location);
  check_sizes("ConvTranspose2d", in, out, kernel_size, options.groups, location);
  auto [w, b] = draw({in, out / options.groups, kernel_size.height, kernel_size.width}, out, options.bias);
  weight = parameter("weight", std::move(w));
  if (options.bias) bias = parameter("bias", std::move(b));
}

Tensor ConvTranspose2d::operator()(const Tensor &x, Location location) const {
  CallerScope scope(location);
  return weft::conv_transpose2d(x, weight, bias,
                                {.stride = options_.stride,
                                 .padding = options_.padding,
                                 .output_padding = options_.output_padding,
                                 .groups = options_.groups,
                                 .dilation = options_.dilation});
}

} // namespace weft::nn
