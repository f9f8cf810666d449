#include "weft/models/shufflenet.h"

#include "weft/models/registry.h"

namespace weft::models {
namespace {

// Convolution without bias, as PyTorch draws it, and batch norm.
void append(nn::Sequential &branch, int64_t in, int64_t out, int64_t kernel, int64_t stride,
            bool depthwise, bool ends_in_relu, Location location) {
  branch.append(
      nn::Conv2d(
          in, out, kernel,
          {.stride = stride, .padding = kernel / 2, .groups = depthwise ? in : 1, .bias = false},
          location),
      location);
  branch.append(batch_norm(out, 1e-5, 0.1, location), location);
  if (ends_in_relu)
    branch.append(nn::ReLU(), location);
}

// Channels c and c + C / 2 become neighbours.
Tensor shuffle(const Tensor &x) {
  return x.reshape({x.size(0), 2, x.size(1) / 2, x.size(2), x.size(3)})
      .transpose(1, 2)
      .reshape(x.shape());
}

} // namespace

ShuffleNetV2Config ShuffleNetV2Config::x0_5() {
  return {.stage_channels = {24, 48, 96, 192, 1024}};
}
ShuffleNetV2Config ShuffleNetV2Config::x1_0() {
  return {};
}

ShuffleBlock::ShuffleBlock(int64_t in, int64_t out, int64_t stride, Location location) {
  require(out % 2 == 0 && (stride > 1 || in == out), "ShuffleBlock",
          "out must be even, and at stride 1 equal to in: " + std::to_string(in) + " channels to " +
              std::to_string(out),
          location);
  int64_t half = out / 2;
  if (stride > 1) {
    append(branch1_, in, in, 3, stride, true, false, location);
    append(branch1_, in, half, 1, 1, false, true, location);
  }
  append(branch2_, stride > 1 ? in : half, half, 1, 1, false, true, location);
  append(branch2_, half, half, 3, stride, true, false, location);
  append(branch2_, half, half, 1, 1, false, true, location);
  child("branch1", branch1_, location);
  child("branch2", branch2_, location);
}

Tensor ShuffleBlock::operator()(const Tensor &x, Location location) const {
  nn::ModuleCall scope(*this, location);
  if (branch1_.size())
    return shuffle(cat({branch1_(x), branch2_(x)}, 1));
  std::vector<Tensor> halves = x.chunk(2, 1);
  return shuffle(cat({halves[0], branch2_(halves[1])}, 1));
}

ShuffleNetV2::ShuffleNetV2(const ShuffleNetV2Config &config, Location location) {
  require(config.stage_channels.size() == config.blocks.size() + 2, "ShuffleNetV2",
          "stage_channels must have two entries more than blocks, they have " +
              std::to_string(config.stage_channels.size()) + " and " +
              std::to_string(config.blocks.size()),
          location);
  int64_t in = config.stage_channels.front(), last = config.stage_channels.back();
  append(conv1_, config.channels, in, 3, 2, false, true, location);
  child("conv1", conv1_, location);
  for (size_t stage = 0; stage < config.blocks.size(); ++stage) {
    int64_t out = config.stage_channels[stage + 1];
    nn::Sequential blocks;
    for (int64_t i = 0; i < config.blocks[stage]; ++i, in = out)
      blocks.append(ShuffleBlock(in, out, i == 0 ? 2 : 1, location), location);
    stages_.push_back(child("stage" + std::to_string(stage + 2), blocks, location));
  }
  append(conv5_, in, last, 1, 1, false, true, location);
  child("conv5", conv5_, location);
  fc_.push_back(child("fc", nn::Linear(last, config.classes, {}, location), location));
}

Tensor ShuffleNetV2::operator()(const Tensor &images, Location location) const {
  nn::ModuleCall scope(*this, location);
  Tensor x = max_pool2d(conv1_(images), 3, {.stride = 2, .padding = 1});
  for (const nn::Sequential &stage : stages_)
    x = stage(x);
  return fc_[0](pool_flat(conv5_(x)));
}

namespace {
Record classifier(const char *name) {
  return {.name = name,
          .kind = "image classifier",
          .source = "Ma et al. 2018, ShuffleNet V2: Practical Guidelines for Efficient CNN "
                    "Architecture Design",
          .inputs = image_input()};
}
const Registration<ShuffleNetV2> x0_5(classifier("shufflenet_v2_x0_5"), ShuffleNetV2Config::x0_5());
const Registration<ShuffleNetV2> x1_0(classifier("shufflenet_v2_x1_0"), ShuffleNetV2Config::x1_0());
} // namespace

} // namespace weft::models
