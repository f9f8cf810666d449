#include "weft/models/densenet.h"

#include <cmath>

#include "weft/models/registry.h"

namespace weft::models {
namespace {

// Normal by fan-in, without bias.
nn::Conv2d dense_convolution(int64_t in, int64_t out, int64_t kernel, nn::Conv2dOptions options,
                             Location location) {
  CallerScope scope(location);
  options.bias = false;
  return nn::Conv2d(nn::init::kaiming_normal({out, in, kernel, kernel}), Tensor(), options,
                    location);
}

nn::BatchNorm2d norm(int64_t channels, Location location) {
  return batch_norm(channels, 1e-5, 0.1, location);
}

nn::Linear classifier_of(int64_t in, int64_t classes, Location location) {
  CallerScope scope(location);
  return nn::Linear(nn::init::kaiming_uniform({classes, in}, std::sqrt(5.0)),
                    nn::init::constant({classes}, 0), location);
}

} // namespace

DenseNetConfig DenseNetConfig::densenet121() {
  return {};
}
DenseNetConfig DenseNetConfig::densenet169() {
  return {.layers = {6, 12, 32, 32}};
}

DenseLayer::DenseLayer(int64_t in, int64_t growth, int64_t bottleneck, Location location)
    : norm1_(norm(in, location)), norm2_(norm(bottleneck * growth, location)),
      conv1_(dense_convolution(in, bottleneck * growth, 1, {}, location)),
      conv2_(dense_convolution(bottleneck * growth, growth, 3, {.padding = 1}, location)) {
  child("norm1", norm1_, location);
  child("conv1", conv1_, location);
  child("norm2", norm2_, location);
  child("conv2", conv2_, location);
}

Tensor DenseLayer::operator()(const Tensor &x, Location location) const {
  nn::ModuleCall scope(*this, location);
  return conv2_(relu(norm2_(conv1_(relu(norm1_(x))))));
}

DenseNet::DenseNet(const DenseNetConfig &config, Location location)
    : conv0_(dense_convolution(config.channels, config.stem, 7, {.stride = 2, .padding = 3},
                               location)),
      norm0_(norm(config.stem, location)) {
  require(!config.layers.empty(), "DenseNet", "there must be at least one dense block", location);
  child("features", features_, location);
  features_.add("conv0", conv0_, location);
  features_.add("norm0", norm0_, location);
  int64_t channels = config.stem;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    std::string number = std::to_string(i + 1);
    Stage stage;
    Group block = features_.add("denseblock" + number, Group(), location);
    for (int64_t k = 1; k <= config.layers[i]; ++k, channels += config.growth)
      stage.layers.push_back(
          block.add("denselayer" + std::to_string(k),
                    DenseLayer(channels, config.growth, config.bottleneck, location), location));
    if (i + 1 < config.layers.size()) {
      Group transition = features_.add("transition" + number, Group(), location);
      stage.norm.push_back(transition.add("norm", norm(channels, location), location));
      stage.conv.push_back(transition.add(
          "conv", dense_convolution(channels, channels / 2, 1, {}, location), location));
      channels /= 2;
    }
    stages_.push_back(std::move(stage));
  }
  // The name that files have, whatever the number of blocks.
  last_norm_.push_back(features_.add("norm5", norm(channels, location), location));
  classifier_.push_back(
      child("classifier", classifier_of(channels, config.classes, location), location));
}

Tensor DenseNet::operator()(const Tensor &images, Location location) const {
  nn::ModuleCall scope(*this, location);
  Tensor x = max_pool2d(relu(norm0_(conv0_(images))), 3, {.stride = 2, .padding = 1});
  for (const Stage &stage : stages_) {
    for (const DenseLayer &layer : stage.layers)
      x = cat({x, layer(x)}, 1);
    if (!stage.conv.empty())
      x = avg_pool2d(stage.conv[0](relu(stage.norm[0](x))), 2);
  }
  return classifier_[0](pool_flat(relu(last_norm_[0](x))));
}

namespace {
Record classifier(const char *name) {
  return {.name = name,
          .kind = "image classifier",
          .source = "Huang et al. 2017, Densely Connected Convolutional Networks",
          .inputs = image_input()};
}
const Registration<DenseNet> densenet121(classifier("densenet121"), DenseNetConfig::densenet121());
const Registration<DenseNet> densenet169(classifier("densenet169"), DenseNetConfig::densenet169());
} // namespace

} // namespace weft::models
