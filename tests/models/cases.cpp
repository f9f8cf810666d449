#include "tests/models/cases.h"

#include "tests/models/formula.h"

namespace weft::tests {
namespace {

using namespace models;

template <typename M, typename Config> std::function<AnyModel()> model(Config config) {
  return [config] {
    return AnyModel(M(config));
  };
}

std::function<std::vector<Tensor>(const std::string &)> images(int64_t size, int64_t batch = 3) {
  return [=](const std::string &salt) {
    return std::vector{unit("input0" + salt, {batch, 3, size, size})};
  };
}

std::vector<Tensor> words(const std::string &salt) {
  return {indices("input0" + salt, {2, 12}, 61)};
}

// Of the second text 7 tokens count.
std::vector<Tensor> marked_words(const std::string &salt) {
  std::vector<int64_t> mask(24, 1);
  std::fill(mask.begin() + 19, mask.end(), 0);
  return {indices("input0" + salt, {2, 12}, 61), indices("input1" + salt, {2, 12}, 2),
          Tensor::from(mask, {2, 12})};
}

VggConfig small_vgg(bool batch_norm) {
  return {.stages = {{16}, {24}, {32, 32}, {40, 40}},
          .batch_norm = batch_norm,
          .hidden = 48,
          .dropout = 0,
          .classes = 10};
}

SqueezeNetConfig small_squeezenet(SqueezeNetConfig config) {
  config.dropout = 0;
  config.classes = 10;
  return config;
}

constexpr Activation kRelu = Activation::kReLU, kSwish = Activation::kHardswish;

} // namespace

const std::vector<Case> &cases() {
  static const std::vector<Case> cases = {
      {"alexnet", model<AlexNet>(AlexNetConfig{.hidden = 48, .dropout = 0, .classes = 10}),
       images(80, 2)},
      {"bert",
       model<Bert>(BertConfig{.vocabulary = 61,
                              .positions = 16,
                              .size = 32,
                              .hidden = 64,
                              .layers = 2,
                              .heads = 4,
                              .dropout = 0}),
       marked_words},
      {"convnext",
       model<ConvNext>(ConvNextConfig{
           .blocks = {1, 2, 1}, .widths = {16, 32, 48}, .drop_rate = 0, .classes = 10}),
       images(48, 2)},
      {"densenet",
       model<DenseNet>(DenseNetConfig{
           .layers = {2, 3, 2}, .growth = 8, .bottleneck = 2, .stem = 16, .classes = 10}),
       images(64)},
      {"efficientnet",
       model<EfficientNet>(
           EfficientNetConfig{.stages = {{1, 3, 1, 16, 1}, {6, 3, 2, 24, 2}, {6, 5, 2, 40, 1}},
                              .last = 128,
                              .drop_rate = 0,
                              .dropout = 0,
                              .classes = 10}),
       images(32)},
      {"gpt2",
       model<Gpt2>(Gpt2Config{
           .vocabulary = 61, .positions = 16, .size = 32, .layers = 2, .heads = 4, .dropout = 0}),
       words},
      {"llama",
       model<Llama>(LlamaConfig{
           .vocabulary = 61, .size = 32, .hidden = 56, .layers = 2, .heads = 4, .key_heads = 2}),
       words},
      {"mlp", model<Mlp>(MlpConfig{.inputs = 24, .sizes = {32, 32, 16}}),
       [](const std::string &salt) { return std::vector{unit("input0" + salt, {3, 24})}; }},
      {"mnasnet",
       model<MnasNet>(MnasNetConfig{.stages = {{24, 3, 2, 3, 3}, {40, 5, 2, 3, 3}},
                                    .scale = 0.5,
                                    .dropout = 0,
                                    .classes = 10}),
       images(32)},
      {"mobilenet_v2",
       model<MobileNetV2>(MobileNetV2Config{
           .stages = {{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 1, 2}}, .dropout = 0, .classes = 10}),
       images(32)},
      {"mobilenet_v3",
       model<MobileNetV3>(MobileNetV3Config{.blocks = {{3, 16, 16, true, kRelu, 2},
                                                       {3, 64, 24, false, kRelu, 1},
                                                       {5, 72, 24, true, kSwish, 1},
                                                       {5, 88, 40, true, kSwish, 2}},
                                            .last = 64,
                                            .dropout = 0,
                                            .classes = 10}),
       images(32)},
      {"resnet_basic", model<ResNet>(ResNetConfig{.blocks = {2, 1, 1, 1}, .classes = 10}),
       images(64)},
      {"resnet_bottleneck",
       model<ResNet>(ResNetConfig{.blocks = {1, 2, 1, 1}, .bottleneck = true, .classes = 10}),
       images(64)},
      {"shufflenet_v2",
       model<ShuffleNetV2>(ShuffleNetV2Config{
           .blocks = {2, 3, 2}, .stage_channels = {24, 48, 96, 192, 256}, .classes = 10}),
       images(64)},
      {"squeezenet1_0", model<SqueezeNet>(small_squeezenet(SqueezeNetConfig::squeezenet1_0())),
       images(48, 2)},
      {"squeezenet1_1", model<SqueezeNet>(small_squeezenet(SqueezeNetConfig::squeezenet1_1())),
       images(48, 2)},
      {"unet", model<UNet>(UNetConfig{.width = 8, .depth = 2}), images(22, 2)},
      {"vae", model<Vae>(VaeConfig{.inputs = 20, .hidden = 16, .latent = 4}),
       [](const std::string &salt) {
         return std::vector{unit("input0" + salt, {3, 20}), unit("input1" + salt, {3, 4})};
       }},
      {"vgg", model<Vgg>(small_vgg(false)), images(32)},
      {"vgg_bn", model<Vgg>(small_vgg(true)), images(32)},
      {"vit",
       model<VisionTransformer>(VitConfig{.image = 32,
                                          .patch = 8,
                                          .layers = 2,
                                          .heads = 4,
                                          .size = 48,
                                          .hidden = 96,
                                          .classes = 10}),
       images(32)},
  };
  return cases;
}

} // namespace weft::tests
