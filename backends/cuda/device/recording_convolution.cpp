#include "backends/cuda/device/recording_convolution.h"

#include <array>

#include "backends/cuda/device/recording_elements.h"

namespace weft::backends::cuda::recording {
namespace {

constexpr int kFloat = 0, kHalf = 2;

Number number_of(const HostTensor &tensor) {
  return tensor.type == kFloat  ? Number::kFloat32
         : tensor.type == kHalf ? Number::kFloat16
                                : Number::kBFloat16;
}

int64_t byte_size(const HostTensor &tensor) {
  return byte_size(number_of(tensor));
}

std::string spell(const std::vector<int64_t> &dims) {
  std::string text;
  for (int64_t dim : dims)
    text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text;
}

// Along three dims, of which the first may be of one element.
struct Along {
  std::array<int64_t, 3> image, weight, result, image_strides, weight_strides, result_strides,
      strides, dilation, padding;
};

Along three_dims(const HostConvolution &c) {
  auto filled = [](const std::vector<int64_t> &from, int64_t filling) {
    std::array<int64_t, 3> to{filling, filling, filling};
    for (size_t i = 0; i < from.size(); ++i)
      to[3 - from.size() + i] = from[i];
    return to;
  };
  auto behind = [&](const std::vector<int64_t> &from, int64_t filling) {
    return filled({from.begin() + 2, from.end()}, filling);
  };
  return {behind(c.image.dims, 1),     behind(c.weight.dims, 1),    behind(c.result.dims, 1),
          behind(c.image.strides, 0),  behind(c.weight.strides, 0), behind(c.result.strides, 0),
          filled(c.strides, 1),        filled(c.dilation, 1),       filled(c.padding_before, 0)};
}

} // namespace

size_t bytes_of(const HostTensor &tensor) {
  int64_t last = 0;
  for (size_t i = 0; i < tensor.dims.size(); ++i)
    last += (tensor.dims[i] - 1) * tensor.strides[i];
  return static_cast<size_t>((last + 1) * byte_size(tensor));
}

std::string why_no_convolution(const HostConvolution &c) {
  size_t rank = c.image.dims.size();
  if (rank < 4 || rank > 5 || c.weight.dims.size() != rank || c.result.dims.size() != rank ||
      c.strides.size() != rank - 2)
    return "the tensors' ranks are not those of a convolution of 2 or 3 dims";
  if (c.image.type != c.weight.type ||
      c.result.type != (c.result.is_virtual ? kFloat : c.image.type))
    return "the tensors are of several data types, or sums are not in float32";
  if (c.image.is_virtual || c.weight.is_virtual || (c.result.is_virtual && c.adds))
    return "what is read lies nowhere";
  if (c.image.id == c.weight.id || c.image.id == c.result.id || c.weight.id == c.result.id)
    return "two tensors have one unique id";
  if (c.image.dims[0] != c.result.dims[0] || c.weight.dims[0] != c.result.dims[1] ||
      c.image.dims[1] % c.weight.dims[1] != 0 ||
      c.weight.dims[0] % (c.image.dims[1] / c.weight.dims[1]) != 0)
    return "the channels do not fit: " + name_of(c);
  for (size_t i = 0; i + 2 < rank; ++i)
    if ((c.image.dims[2 + i] + c.padding_before[i] + c.padding_behind[i] -
         c.dilation[i] * (c.weight.dims[2 + i] - 1) - 1) /
                c.strides[i] +
            1 !=
        c.result.dims[2 + i])
      return "the result's size does not fit: " + name_of(c);
  return "";
}

std::string name_of(const HostConvolution &c) {
  const char *kind = c.kind == HostConvolution::kForward         ? "forward "
                     : c.kind == HostConvolution::kInputGradient ? "input_gradient "
                                                                 : "weight_gradient ";
  return kind + spell(c.image.dims) + " by " + spell(c.weight.dims) + (c.bias ? " + bias" : "") +
         (c.adds ? " + what is there" : "");
}

void convolve(const HostConvolution &c, unsigned char *image, unsigned char *weight,
              unsigned char *result, unsigned char *bias) {
  Elements images(number_of(c.image), image), weights(number_of(c.weight), weight),
      results(number_of(c.result), result);
  bool forward = c.kind == HostConvolution::kForward,
       by_image = c.kind == HostConvolution::kInputGradient;
  const HostTensor &target = forward ? c.result : by_image ? c.image : c.weight;
  const Elements &to = forward ? results : by_image ? images : weights;
  std::vector<double> sums(bytes_of(target) / static_cast<size_t>(byte_size(target)));
  for (size_t i = 0; i < sums.size(); ++i) {
    auto at = static_cast<int64_t>(i);
    if (c.adds)
      sums[i] = to.get(at);
    if (c.bias)
      sums[i] += Elements(number_of(*c.bias), bias)
                     .get(at / c.result.strides[1] % c.result.dims[1] * c.bias->strides[1]);
  }
  Along along = three_dims(c);
  int64_t channels = c.weight.dims[1], groups = c.image.dims[1] / channels,
          of_group = c.weight.dims[0] / groups;
  auto inside = [&](int i, int64_t y, int64_t tap, int64_t &x) {
    x = y * along.strides[i] + tap * along.dilation[i] - along.padding[i];
    return x >= 0 && x < along.image[i];
  };
  // One product, of a weight's element, with a pixel of the image and one of the result.
  auto multiply = [&](int64_t at_image, int64_t at_weight, int64_t at_result) {
    if (forward)
      sums[static_cast<size_t>(at_result)] += images.get(at_image) * weights.get(at_weight);
    else if (by_image)
      sums[static_cast<size_t>(at_image)] += results.get(at_result) * weights.get(at_weight);
    else
      sums[static_cast<size_t>(at_weight)] += images.get(at_image) * results.get(at_result);
  };
  auto at = [](const std::array<int64_t, 3> &strides, int64_t i, int64_t j, int64_t k) {
    return i * strides[0] + j * strides[1] + k * strides[2];
  };
  auto tap_of = [&](int i, int64_t tap) {
    return c.flips ? along.weight[i] - 1 - tap : tap;
  };
  auto pixels = [&](int64_t image_at, int64_t weight_at, int64_t result_at) {
    int64_t x = 0, y = 0, z = 0;
    for (int64_t u = 0; u < along.weight[0]; ++u)
      for (int64_t v = 0; v < along.weight[1]; ++v)
        for (int64_t w = 0; w < along.weight[2]; ++w)
          for (int64_t i = 0; i < along.result[0]; ++i)
            for (int64_t j = 0; inside(0, i, u, x) && j < along.result[1]; ++j)
              for (int64_t k = 0; inside(1, j, v, y) && k < along.result[2]; ++k)
                if (inside(2, k, w, z))
                  multiply(image_at + at(along.image_strides, x, y, z),
                           weight_at + at(along.weight_strides, tap_of(0, u), tap_of(1, v),
                                          tap_of(2, w)),
                           result_at + at(along.result_strides, i, j, k));
  };
  for (int64_t n = 0; n < c.image.dims[0]; ++n)
    for (int64_t o = 0; o < c.weight.dims[0]; ++o)
      for (int64_t channel = 0; channel < channels; ++channel)
        pixels(n * c.image.strides[0] +
                   (o / of_group * channels + channel) * c.image.strides[1],
               o * c.weight.strides[0] + channel * c.weight.strides[1],
               n * c.result.strides[0] + o * c.result.strides[1]);
  for (size_t i = 0; i < sums.size(); ++i)
    to.set(static_cast<int64_t>(i), sums[i]);
}

} // namespace weft::backends::cuda::recording
