#include "weft/models/mobilenet.h"

#include "weft/models/registry.h"

namespace weft::models {
namespace {

constexpr double kLinearDeviation = 0.01;           // of classifiers at the start
constexpr double kV3Eps = 1e-3, kV3Momentum = 0.01; // of V3's batch norms
constexpr Activation kRelu = Activation::kReLU, kSwish = Activation::kHardswish;

} // namespace

MobileNetV2::MobileNetV2(const MobileNetV2Config &config, Location location) {
  require(!config.stages.empty(), "MobileNetV2", "there must be at least one stage", location);
  features_.append(ConvNorm(config.channels, config.stem, 3,
                            {.stride = 2, .activation = Activation::kReLU6}, location),
                   location);
  int64_t in = config.stem;
  for (const MobileNetV2Stage &stage : config.stages)
    for (int64_t i = 0; i < stage.blocks; ++i, in = stage.channels)
      features_.append(MobileBlock(in, in * stage.expansion, stage.channels,
                                   {.stride = i == 0 ? stage.stride : 1, .flat = true}, location),
                       location);
  features_.append(ConvNorm(in, config.last, 1, {.activation = Activation::kReLU6}, location),
                   location);
  classifier_.append(nn::Dropout(config.dropout, location), location);
  classifier_.append(linear_normal(config.last, config.classes, kLinearDeviation, location),
                     location);
  child("features", features_, location);
  child("classifier", classifier_, location);
}

Tensor MobileNetV2::operator()(const Tensor &images, Location location) const {
  nn::ModuleCall scope(*this, location);
  return classifier_(pool_flat(features_(images)));
}

MobileNetV3Config MobileNetV3Config::large() {
  return {.blocks = {{3, 16, 16, false, kRelu, 1},
                     {3, 64, 24, false, kRelu, 2},
                     {3, 72, 24, false, kRelu, 1},
                     {5, 72, 40, true, kRelu, 2},
                     {5, 120, 40, true, kRelu, 1},
                     {5, 120, 40, true, kRelu, 1},
                     {3, 240, 80, false, kSwish, 2},
                     {3, 200, 80, false, kSwish, 1},
                     {3, 184, 80, false, kSwish, 1},
                     {3, 184, 80, false, kSwish, 1},
                     {3, 480, 112, true, kSwish, 1},
                     {3, 672, 112, true, kSwish, 1},
                     {5, 672, 160, true, kSwish, 2},
                     {5, 960, 160, true, kSwish, 1},
                     {5, 960, 160, true, kSwish, 1}}};
}

MobileNetV3Config MobileNetV3Config::small() {
  return {.blocks = {{3, 16, 16, true, kRelu, 2},
                     {3, 72, 24, false, kRelu, 2},
                     {3, 88, 24, false, kRelu, 1},
                     {5, 96, 40, true, kSwish, 2},
                     {5, 240, 40, true, kSwish, 1},
                     {5, 240, 40, true, kSwish, 1},
                     {5, 120, 48, true, kSwish, 1},
                     {5, 144, 48, true, kSwish, 1},
                     {5, 288, 96, true, kSwish, 2},
                     {5, 576, 96, true, kSwish, 1},
                     {5, 576, 96, true, kSwish, 1}},
          .last = 1024};
}

MobileNetV3::MobileNetV3(const MobileNetV3Config &config, Location location) {
  require(!config.blocks.empty(), "MobileNetV3", "there must be at least one block", location);
  auto ends = [&](int64_t in, int64_t out, int64_t kernel, int64_t stride) {
    features_.append(
        ConvNorm(in, out, kernel,
                 {.stride = stride, .activation = kSwish, .eps = kV3Eps, .momentum = kV3Momentum},
                 location),
        location);
  };
  ends(config.channels, config.stem, 3, 2);
  int64_t in = config.stem;
  for (const MobileNetV3Block &block : config.blocks) {
    int64_t squeezed = round_channels(static_cast<double>(block.expanded / 4));
    features_.append(MobileBlock(in, block.expanded, block.channels,
                                 {.kernel_size = block.kernel_size,
                                  .stride = block.stride,
                                  .activation = block.activation,
                                  .eps = kV3Eps,
                                  .momentum = kV3Momentum,
                                  .squeezed = block.gated ? squeezed : 0,
                                  .gate = Gate::kHardsigmoid},
                                 location),
                     location);
    in = block.channels;
  }
  ends(in, 6 * in, 1, 1);
  classifier_.append(linear_normal(6 * in, config.last, kLinearDeviation, location), location);
  classifier_.append(nn::Hardswish(), location);
  classifier_.append(nn::Dropout(config.dropout, location), location);
  classifier_.append(linear_normal(config.last, config.classes, kLinearDeviation, location),
                     location);
  child("features", features_, location);
  child("classifier", classifier_, location);
}

Tensor MobileNetV3::operator()(const Tensor &images, Location location) const {
  nn::ModuleCall scope(*this, location);
  return classifier_(pool_flat(features_(images)));
}

namespace {
Record classifier(const char *name, const char *source) {
  return {.name = name, .kind = "image classifier", .source = source, .inputs = image_input()};
}
constexpr const char *kV3 = "Howard et al. 2019, Searching for MobileNetV3";
const Registration<MobileNetV2>
    v2(classifier("mobilenet_v2",
                  "Sandler et al. 2018, MobileNetV2: Inverted Residuals and Linear Bottlenecks"),
       MobileNetV2Config());
const Registration<MobileNetV3> v3_large(classifier("mobilenet_v3_large", kV3),
                                         MobileNetV3Config::large());
const Registration<MobileNetV3> v3_small(classifier("mobilenet_v3_small", kV3),
                                         MobileNetV3Config::small());
} // namespace

} // namespace weft::models
