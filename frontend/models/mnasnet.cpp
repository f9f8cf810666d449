#include "weft/models/mnasnet.h"

#include <cmath>

#include "weft/models/registry.h"

namespace weft::models {
namespace {

constexpr double kMomentum = 0.0003; // of the batch norms: averages over thousands of batches
constexpr int64_t kStem = 32, kFirst = 16, kLast = 1280; // channels at both ends, before scaling

// Convolution, of each channel alone or of all, and batch norm.
void append(nn::Sequential &to, int64_t in, int64_t out, int64_t kernel, int64_t stride,
            bool depthwise, bool ends_in_relu, Location location) {
  to.append(
      convolution(
          in, out, kernel,
          {.stride = stride, .padding = kernel / 2, .groups = depthwise ? in : 1, .bias = false},
          location),
      location);
  to.append(batch_norm(out, 1e-5, kMomentum, location), location);
  if (ends_in_relu)
    to.append(nn::ReLU(), location);
}

// An inverted residual: wide, each channel alone, narrow; beside it x where it has the same shape.
struct Block : nn::Module {
  Block(int64_t in, int64_t out, const MnasNetStage &stage, int64_t stride, Location location)
      : adds(in == out && stride == 1) {
    int64_t wide = in * stage.expansion;
    append(layers, in, wide, 1, 1, false, true, location);
    append(layers, wide, wide, stage.kernel_size, stride, true, true, location);
    append(layers, wide, out, 1, 1, false, false, location);
    child("layers", layers, location);
  }
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    nn::ModuleCall scope(*this, location);
    return adds ? layers(x) + x : layers(x);
  }
  nn::Sequential layers;
  bool adds;
};

} // namespace

MnasNetConfig MnasNetConfig::mnasnet0_5() {
  return {.scale = 0.5};
}
MnasNetConfig MnasNetConfig::mnasnet1_0() {
  return {};
}

MnasNet::MnasNet(const MnasNetConfig &config, Location location) {
  CallerScope scope(location);
  require(config.scale > 0 && !config.stages.empty() && config.classes >= 1, "MnasNet",
          "scale must be above 0, it is " + std::to_string(config.scale) +
              "; stages and classes must be at least one",
          location);
  auto scaled = [&](int64_t channels) {
    return round_channels(static_cast<double>(channels) * config.scale);
  };
  int64_t stem = scaled(kStem), in = scaled(kFirst);
  append(layers_, config.channels, stem, 3, 2, false, true, location);
  append(layers_, stem, stem, 3, 1, true, true, location);
  append(layers_, stem, in, 1, 1, false, false, location);
  for (const MnasNetStage &stage : config.stages) {
    nn::Sequential blocks;
    int64_t out = scaled(stage.channels);
    for (int64_t i = 0; i < stage.blocks; ++i, in = out)
      blocks.append(Block(in, out, stage, i == 0 ? stage.stride : 1, location), location);
    layers_.append(blocks, location);
  }
  append(layers_, in, kLast, 1, 1, false, true, location);
  classifier_.append(nn::Dropout(config.dropout, location), location);
  // Uniform by fan-out.
  double bound = std::sqrt(3.0 / static_cast<double>(config.classes));
  classifier_.append(nn::Linear(nn::init::uniform({config.classes, kLast}, bound),
                                nn::init::constant({config.classes}, 0), location),
                     location);
  child("layers", layers_, location);
  child("classifier", classifier_, location);
}

Tensor MnasNet::operator()(const Tensor &images, Location location) const {
  nn::ModuleCall scope(*this, location);
  return classifier_(pool_flat(layers_(images)));
}

namespace {
Record classifier(const char *name) {
  return {.name = name,
          .kind = "image classifier",
          .source =
              "Tan et al. 2019, MnasNet: Platform-Aware Neural Architecture Search for Mobile",
          .inputs = image_input()};
}
const Registration<MnasNet> mnasnet0_5(classifier("mnasnet0_5"), MnasNetConfig::mnasnet0_5());
const Registration<MnasNet> mnasnet1_0(classifier("mnasnet1_0"), MnasNetConfig::mnasnet1_0());
} // namespace

} // namespace weft::models
