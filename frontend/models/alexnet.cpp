#include "weft/models/alexnet.h"

#include "weft/models/registry.h"

namespace weft::models {

constexpr int64_t kPooled = 6; // rows and columns that the classifier sees

AlexNet::AlexNet(const AlexNetConfig &config, Location location) {
  const nn::MaxPool2d pool(3, {.stride = 2});
  auto convolve = [&](int64_t in, int64_t out, int64_t kernel, nn::Conv2dOptions options) {
    features_.append(nn::Conv2d(in, out, kernel, options, location), location);
    features_.append(nn::ReLU(), location);
  };
  convolve(config.channels, 64, 11, {.stride = 4, .padding = 2});
  features_.append(pool, location);
  convolve(64, 192, 5, {.padding = 2});
  features_.append(pool, location);
  convolve(192, 384, 3, {.padding = 1});
  convolve(384, 256, 3, {.padding = 1});
  convolve(256, 256, 3, {.padding = 1});
  features_.append(pool, location);
  classifier_.append(nn::Dropout(config.dropout, location));
  classifier_.append(nn::Linear(256 * kPooled * kPooled, config.hidden, {}, location));
  classifier_.append(nn::ReLU());
  classifier_.append(nn::Dropout(config.dropout, location));
  classifier_.append(nn::Linear(config.hidden, config.hidden, {}, location));
  classifier_.append(nn::ReLU());
  classifier_.append(nn::Linear(config.hidden, config.classes, {}, location));
  child("features", features_, location);
  child("classifier", classifier_, location);
}

Tensor AlexNet::operator()(const Tensor &images, Location location) const {
  nn::ModuleCall scope(*this, location);
  return classifier_(adaptive_avg_pool2d(features_(images), kPooled).flatten(1));
}

namespace {
const Registration<AlexNet> alexnet({.name = "alexnet",
                                     .kind = "image classifier",
                                     .source = "Krizhevsky 2014, One weird trick for parallelizing "
                                               "convolutional neural networks",
                                     .inputs = image_input()},
                                    AlexNetConfig());
} // namespace

} // namespace weft::models
