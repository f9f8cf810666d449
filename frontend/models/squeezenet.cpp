#include "weft/models/squeezenet.h"

#include "weft/models/registry.h"

namespace weft::models {
namespace {

// Uniform by fan-in, as for relu, with a bias of 0.
nn::Conv2d uniform_convolution(int64_t in, int64_t out, int64_t kernel, nn::Conv2dOptions options,
                               Location location) {
  CallerScope scope(location);
  return nn::Conv2d(nn::init::kaiming_uniform({out, in, kernel, kernel}),
                    nn::init::constant({out}, 0), options, location);
}

} // namespace

SqueezeNetConfig SqueezeNetConfig::squeezenet1_0() {
  return {};
}
SqueezeNetConfig SqueezeNetConfig::squeezenet1_1() {
  return {.stem = 64,
          .stem_kernel = 3,
          .stages = {{{{16, 64}, {16, 64}}},
                     {{{32, 128}, {32, 128}}},
                     {{{48, 192}, {48, 192}, {64, 256}, {64, 256}}}}};
}

Fire::Fire(int64_t in, int64_t squeezed, int64_t expanded, Location location)
    : squeeze(uniform_convolution(in, squeezed, 1, {}, location)),
      expand1x1(uniform_convolution(squeezed, expanded, 1, {}, location)),
      expand3x3(uniform_convolution(squeezed, expanded, 3, {.padding = 1}, location)) {
  child("squeeze", squeeze, location);
  child("expand1x1", expand1x1, location);
  child("expand3x3", expand3x3, location);
}

Tensor Fire::operator()(const Tensor &x, Location location) const {
  nn::ModuleCall scope(*this, location);
  Tensor few = relu(squeeze(x));
  return cat({relu(expand1x1(few)), relu(expand3x3(few))}, 1);
}

SqueezeNet::SqueezeNet(const SqueezeNetConfig &config, Location location) {
  require(!config.stages.empty(), "SqueezeNet", "there must be at least one stage", location);
  features_.append(uniform_convolution(config.channels, config.stem, config.stem_kernel,
                                       {.stride = 2}, location),
                   location);
  features_.append(nn::ReLU(), location);
  int64_t in = config.stem;
  for (const FireStage &stage : config.stages) {
    features_.append(nn::MaxPool2d(3, {.stride = 2, .ceil_mode = true}), location);
    for (auto [squeezed, expanded] : stage.fires) {
      features_.append(Fire(in, squeezed, expanded, location), location);
      in = 2 * expanded;
    }
  }
  classifier_.append(nn::Dropout(config.dropout, location), location);
  classifier_.append(nn::Conv2d(nn::init::normal({config.classes, in, 1, 1}, 0, 0.01, location),
                                nn::init::constant({config.classes}, 0, {}, location), {},
                                location),
                     location);
  classifier_.append(nn::ReLU(), location);
  child("features", features_, location);
  child("classifier", classifier_, location);
}

Tensor SqueezeNet::operator()(const Tensor &images, Location location) const {
  nn::ModuleCall scope(*this, location);
  return pool_flat(classifier_(features_(images)));
}

namespace {
Record classifier(const char *name) {
  return {.name = name,
          .kind = "image classifier",
          .source = "Iandola et al. 2016, SqueezeNet: AlexNet-level accuracy with 50x fewer "
                    "parameters and <0.5MB model size",
          .inputs = image_input()};
}
const Registration<SqueezeNet> squeezenet1_0(classifier("squeezenet1_0"),
                                             SqueezeNetConfig::squeezenet1_0());
const Registration<SqueezeNet> squeezenet1_1(classifier("squeezenet1_1"),
                                             SqueezeNetConfig::squeezenet1_1());
} // namespace

} // namespace weft::models
