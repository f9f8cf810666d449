#include "benchmarks/cnn/networks.h"

#include "weft/models/models.h"

namespace weft::benchmarks {
namespace {

using models::ConvNorm, models::Activation;

// An inverted residual whose channels are weighted by what is in the whole image.
struct WeightedResidual : nn::Module {
  WeightedResidual(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t expansion)
      : block(child(
            "block",
            nn::Sequential(
                ConvNorm(in, in * expansion, 1, {.activation = Activation::kSiLU}),
                ConvNorm(
                    in * expansion, in * expansion, kernel,
                    {.stride = stride, .groups = in * expansion, .activation = Activation::kSiLU}),
                models::SqueezeExcitation(in * expansion, in / 4, Activation::kSiLU,
                                          models::Gate::kSigmoid),
                ConvNorm(in * expansion, out, 1, {.activation = Activation::kNone})))),
        adds(in == out && stride == 1) {}
  Tensor operator()(const Tensor &x) const {
    return adds ? x + block(x) : block(x);
  }
  nn::Sequential block;
  bool adds;
};

Tensor mean_of_pixels(const Tensor &x) {
  return mean(x, {2, 3});
}

} // namespace

// Those of the library, without dropout, which the peers leave out, too.
nn::Sequential resnet18(int64_t classes) {
  models::ResNetConfig config = models::ResNetConfig::resnet18();
  config.classes = classes;
  return nn::Sequential(models::ResNet(config));
}

nn::Sequential resnet50(int64_t classes) {
  models::ResNetConfig config = models::ResNetConfig::resnet50();
  config.classes = classes;
  return nn::Sequential(models::ResNet(config));
}

nn::Sequential mobilenet(int64_t classes) {
  return nn::Sequential(models::MobileNetV2({.dropout = 0, .classes = classes}));
}

nn::Sequential squeezenet(int64_t classes) {
  models::SqueezeNetConfig config = models::SqueezeNetConfig::squeezenet1_1();
  config.dropout = 0;
  config.classes = classes;
  return nn::Sequential(models::SqueezeNet(config));
}

nn::Sequential efficientnet(int64_t classes) {
  struct Stage {
    int64_t expansion, out, kernel, blocks, stride;
  };
  nn::Sequential net(ConvNorm(3, 32, 3, {.stride = 2, .activation = Activation::kSiLU}));
  int64_t in = 32;
  for (Stage stage : {Stage{1, 16, 3, 1, 1}, {6, 24, 3, 2, 2}, {6, 40, 5, 2, 2}, {6, 80, 3, 3, 2}})
    for (int64_t i = 0; i < stage.blocks; ++i, in = stage.out)
      net.append(WeightedResidual(in, stage.out, stage.kernel, i == 0 ? stage.stride : 1,
                                  stage.expansion));
  net.append(ConvNorm(in, 320, 1, {.activation = Activation::kSiLU}));
  net.append(mean_of_pixels);
  net.append(nn::Linear(320, classes));
  return net;
}

} // namespace weft::benchmarks
