#include "weft/models/unet.h"

#include "weft/models/registry.h"

namespace weft::models {
namespace {

// Shifted by whole sizes below: 2^20 times the width is more channels than memory holds.
constexpr int64_t kMostDepth = 20;

const UNetConfig &checked(const UNetConfig &config, Location location) {
  require(config.channels >= 1 && config.classes >= 1 && config.width >= 1 && config.depth >= 1 &&
              config.depth <= kMostDepth,
          "UNet",
          "sizes must be at least 1, and depth at most " + std::to_string(kMostDepth) +
              "; channels, classes, width and depth are " + std::to_string(config.channels) + ", " +
              std::to_string(config.classes) + ", " + std::to_string(config.width) + " and " +
              std::to_string(config.depth),
          location);
  return config;
}

} // namespace

DoubleConv::DoubleConv(int64_t in, int64_t out, Location location) {
  for (int64_t from : {in, out}) {
    double_conv_.append(nn::Conv2d(from, out, 3, {.padding = 1, .bias = false}, location),
                        location);
    double_conv_.append(batch_norm(out, 1e-5, 0.1, location), location);
    double_conv_.append(nn::ReLU(), location);
  }
  child("double_conv", double_conv_, location);
}

Tensor DoubleConv::operator()(const Tensor &x, Location location) const {
  nn::ModuleCall scope(*this, location);
  return double_conv_(x);
}

UNet::UNet(const UNetConfig &config, Location location)
    : inc_(checked(config, location).channels, config.width, location),
      outc_(config.width, config.classes, 1, {}, location) {
  child("inc", inc_, location);
  for (int64_t i = 0; i < config.depth; ++i) {
    Group down, pooled;
    down_.emplace_back(config.width << i, config.width << (i + 1), location);
    pooled.add("1", down_.back(), location); // behind the pooling, "0"
    down.add("maxpool_conv", pooled, location);
    child("down" + std::to_string(i + 1), down, location);
  }
  for (int64_t i = 0; i < config.depth; ++i) {
    Group up;
    int64_t in = config.width << (config.depth - i);
    larger_.emplace_back(in, in / 2, 2, nn::ConvTranspose2dOptions{.stride = 2}, location);
    up_.emplace_back(in, in / 2, location);
    up.add("up", larger_.back(), location);
    up.add("conv", up_.back(), location);
    child("up" + std::to_string(i + 1), up, location);
  }
  Group outc;
  outc.add("conv", outc_, location);
  child("outc", outc, location);
}

Tensor UNet::operator()(const Tensor &images, Location location) const {
  nn::ModuleCall scope(*this, location);
  std::vector<Tensor> seen = {inc_(images)};
  for (const DoubleConv &down : down_)
    seen.push_back(down(max_pool2d(seen.back(), 2)));
  Tensor x = seen.back();
  for (size_t i = 0; i < up_.size(); ++i) {
    seen.pop_back();
    x = larger_[i](x);
    // An odd number of rows or columns lost its last one.
    int64_t rows = seen.back().size(2) - x.size(2), columns = seen.back().size(3) - x.size(3);
    if (rows || columns)
      x = pad(x, {columns / 2, columns - columns / 2, rows / 2, rows - rows / 2});
    x = up_[i](cat({seen.back(), x}, 1));
  }
  return outc_(x);
}

namespace {
const Registration<UNet> unet({.name = "unet",
                               .kind = "image segmentation",
                               .source = "Ronneberger et al. 2015, U-Net: Convolutional Networks "
                                         "for Biomedical Image Segmentation",
                               .inputs = {{.sample = {3, 256, 256}}}},
                              UNetConfig());
} // namespace

} // namespace weft::models
