#include "weft/models/efficientnet.h"

#include <algorithm>
#include <cmath>

#include "weft/models/registry.h"

namespace weft::models {

EfficientNetConfig EfficientNetConfig::b0() {
  return {};
}

EfficientNet::EfficientNet(const EfficientNetConfig &config, Location location) {
  CallerScope scope(location);
  require(!config.stages.empty() && config.classes >= 1, "EfficientNet",
          "there must be at least one stage and one class", location);
  const ConvNormOptions stem = {.stride = 2, .activation = Activation::kSiLU},
                        last = {.activation = Activation::kSiLU};
  features_.append(ConvNorm(config.channels, config.stem, 3, stem, location), location);
  int64_t total = 0, before = 0, in = config.stem;
  for (const EfficientNetStage &stage : config.stages)
    total += stage.blocks;
  for (const EfficientNetStage &stage : config.stages) {
    nn::Sequential blocks;
    for (int64_t i = 0; i < stage.blocks; ++i, ++before, in = stage.channels) {
      double share = static_cast<double>(before) / static_cast<double>(total);
      blocks.append(MobileBlock(in, round_channels(static_cast<double>(in * stage.expansion)),
                                stage.channels,
                                {.kernel_size = stage.kernel_size,
                                 .stride = i == 0 ? stage.stride : 1,
                                 .activation = Activation::kSiLU,
                                 .squeezed = std::max<int64_t>(1, in / 4),
                                 .inner = Activation::kSiLU,
                                 .drop_rate = config.drop_rate * share},
                                location),
                    location);
    }
    features_.append(blocks, location);
  }
  features_.append(ConvNorm(in, config.last, 1, last, location), location);
  classifier_.append(nn::Dropout(config.dropout, location), location);
  double bound = 1 / std::sqrt(static_cast<double>(config.classes));
  classifier_.append(nn::Linear(nn::init::uniform({config.classes, config.last}, bound),
                                nn::init::constant({config.classes}, 0), location),
                     location);
  child("features", features_, location);
  child("classifier", classifier_, location);
}

Tensor EfficientNet::operator()(const Tensor &images, Location location) const {
  nn::ModuleCall scope(*this, location);
  return classifier_(pool_flat(features_(images)));
}

namespace {
const Registration<EfficientNet>
    efficientnet_b0({.name = "efficientnet_b0",
                     .kind = "image classifier",
                     .source = "Tan and Le 2019, EfficientNet: Rethinking Model Scaling for "
                               "Convolutional Neural Networks",
                     .inputs = image_input()},
                    EfficientNetConfig::b0());
} // namespace

} // namespace weft::models
