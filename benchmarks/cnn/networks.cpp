#include "benchmarks/cnn/networks.h"

#include <optional>

namespace weft::benchmarks {
namespace {

// Convolution, batch norm, activation.
enum class Activation { kNone, kRelu, kRelu6, kSilu };

struct ConvNorm : nn::Module {
  ConvNorm(int64_t in, int64_t out, int64_t kernel, int64_t stride, Activation activation,
           int64_t groups = 1)
      : convolution(
            child("convolution",
                  nn::Conv2d(
                      in, out, kernel,
                      {.stride = stride, .padding = kernel / 2, .groups = groups, .bias = false}))),
        norm(child("norm", nn::BatchNorm2d(out))), activation(activation) {}
  Tensor operator()(const Tensor &x) const {
    Tensor y = norm(convolution(x));
    if (activation == Activation::kRelu)
      return relu(y);
    if (activation == Activation::kSilu)
      return silu(y);
    return activation == Activation::kRelu6 ? clamp(y, 0, 6) : y;
  }
  nn::Conv2d convolution;
  nn::BatchNorm2d norm;
  Activation activation;
};

struct Residual : nn::Module {
  Residual(int64_t in, int64_t out, int64_t stride)
      : first(child("first", ConvNorm(in, out, 3, stride, Activation::kRelu))),
        second(child("second", ConvNorm(out, out, 3, 1, Activation::kNone))) {
    if (in != out || stride != 1)
      skip = child("skip", ConvNorm(in, out, 1, stride, Activation::kNone));
  }
  Tensor operator()(const Tensor &x) const {
    return relu(second(first(x)) + (skip ? (*skip)(x) : x));
  }
  ConvNorm first, second;
  std::optional<ConvNorm> skip; // where the other side of the sum has another shape
};

struct Bottleneck : nn::Module {
  Bottleneck(int64_t in, int64_t width, int64_t stride)
      : first(child("first", ConvNorm(in, width, 1, 1, Activation::kRelu))),
        second(child("second", ConvNorm(width, width, 3, stride, Activation::kRelu))),
        third(child("third", ConvNorm(width, 4 * width, 1, 1, Activation::kNone))) {
    if (in != 4 * width || stride != 1)
      skip = child("skip", ConvNorm(in, 4 * width, 1, stride, Activation::kNone));
  }
  Tensor operator()(const Tensor &x) const {
    return relu(third(second(first(x))) + (skip ? (*skip)(x) : x));
  }
  ConvNorm first, second, third;
  std::optional<ConvNorm> skip;
};

struct InvertedResidual : nn::Module {
  InvertedResidual(int64_t in, int64_t out, int64_t stride, int64_t expansion)
      : depthwise(child("depthwise", ConvNorm(in * expansion, in * expansion, 3, stride,
                                              Activation::kRelu6, in * expansion))),
        project(child("project", ConvNorm(in * expansion, out, 1, 1, Activation::kNone))),
        adds(in == out && stride == 1) {
    if (expansion != 1)
      expand = child("expand", ConvNorm(in, in * expansion, 1, 1, Activation::kRelu6));
  }
  Tensor operator()(const Tensor &x) const {
    Tensor y = project(depthwise(expand ? (*expand)(x) : x));
    return adds ? x + y : y;
  }
  std::optional<ConvNorm> expand;
  ConvNorm depthwise, project;
  bool adds;
};

// A narrow 1x1 convolution, then a 1x1 and a 3x3 one of it, side by side.
struct Fire : nn::Module {
  Fire(int64_t in, int64_t narrow, int64_t out)
      : squeeze(child("squeeze", nn::Conv2d(in, narrow, 1))),
        one(child("one", nn::Conv2d(narrow, out, 1))),
        three(child("three", nn::Conv2d(narrow, out, 3, {.padding = 1}))) {}
  Tensor operator()(const Tensor &x) const {
    Tensor y = relu(squeeze(x));
    return cat({relu(one(y)), relu(three(y))}, 1);
  }
  nn::Conv2d squeeze, one, three;
};

// An inverted residual whose channels are weighted by what is in the whole image.
struct WeightedResidual : nn::Module {
  WeightedResidual(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t expansion)
      : expand(child("expand", ConvNorm(in, in * expansion, 1, 1, Activation::kSilu))),
        depthwise(child("depthwise", ConvNorm(in * expansion, in * expansion, kernel, stride,
                                              Activation::kSilu, in * expansion))),
        narrow(child("narrow", nn::Conv2d(in * expansion, in / 4, 1))),
        weigh(child("weigh", nn::Conv2d(in / 4, in * expansion, 1))),
        project(child("project", ConvNorm(in * expansion, out, 1, 1, Activation::kNone))),
        adds(in == out && stride == 1) {}
  Tensor operator()(const Tensor &x) const {
    Tensor y = depthwise(expand(x));
    y = project(y * sigmoid(weigh(silu(narrow(mean(y, {2, 3}, /*keepdim=*/true))))));
    return adds ? x + y : y;
  }
  ConvNorm expand, depthwise;
  nn::Conv2d narrow, weigh;
  ConvNorm project;
  bool adds;
};

Tensor mean_of_pixels(const Tensor &x) {
  return mean(x, {2, 3});
}

} // namespace

nn::Sequential resnet18(int64_t classes) {
  nn::Sequential net(ConvNorm(3, 64, 7, 2, Activation::kRelu),
                     nn::MaxPool2d(3, {.stride = 2, .padding = 1}));
  int64_t in = 64;
  for (int64_t out : {64, 128, 256, 512}) {
    net.append(Residual(in, out, in == out ? 1 : 2));
    net.append(Residual(out, out, 1));
    in = out;
  }
  net.append(mean_of_pixels);
  net.append(nn::Linear(512, classes));
  return net;
}

nn::Sequential resnet50(int64_t classes) {
  nn::Sequential net(ConvNorm(3, 64, 7, 2, Activation::kRelu),
                     nn::MaxPool2d(3, {.stride = 2, .padding = 1}));
  int64_t in = 64, width = 64;
  for (int64_t blocks : {3, 4, 6, 3}) {
    for (int64_t i = 0; i < blocks; ++i, in = 4 * width)
      net.append(Bottleneck(in, width, i == 0 && width > 64 ? 2 : 1));
    width *= 2;
  }
  net.append(mean_of_pixels);
  net.append(nn::Linear(in, classes));
  return net;
}

nn::Sequential mobilenet(int64_t classes) {
  struct Stage {
    int64_t expansion, out, blocks, stride;
  };
  nn::Sequential net(ConvNorm(3, 32, 3, 2, Activation::kRelu6));
  int64_t in = 32;
  for (Stage stage : {Stage{1, 16, 1, 1},
                      {6, 24, 2, 2},
                      {6, 32, 3, 2},
                      {6, 64, 4, 2},
                      {6, 96, 3, 1},
                      {6, 160, 3, 2},
                      {6, 320, 1, 1}})
    for (int64_t i = 0; i < stage.blocks; ++i, in = stage.out)
      net.append(InvertedResidual(in, stage.out, i == 0 ? stage.stride : 1, stage.expansion));
  net.append(ConvNorm(in, 1280, 1, 1, Activation::kRelu6));
  net.append(mean_of_pixels);
  net.append(nn::Linear(1280, classes));
  return net;
}

nn::Sequential squeezenet(int64_t classes) {
  nn::MaxPool2d halve(3, {.stride = 2});
  nn::Sequential net(nn::Conv2d(3, 64, 3, {.stride = 2}), nn::ReLU(), halve);
  int64_t in = 64;
  for (int64_t width : {1, 1, 2, 2, 3, 3, 4, 4}) {
    if (in == 128 && width == 2)
      net.append(halve);
    if (in == 256 && width == 3)
      net.append(halve);
    net.append(Fire(in, 16 * width, 64 * width));
    in = 128 * width;
  }
  net.append(nn::Conv2d(in, classes, 1));
  net.append(nn::ReLU());
  net.append(mean_of_pixels);
  return net;
}

nn::Sequential efficientnet(int64_t classes) {
  struct Stage {
    int64_t expansion, out, kernel, blocks, stride;
  };
  nn::Sequential net(ConvNorm(3, 32, 3, 2, Activation::kSilu));
  int64_t in = 32;
  for (Stage stage : {Stage{1, 16, 3, 1, 1}, {6, 24, 3, 2, 2}, {6, 40, 5, 2, 2}, {6, 80, 3, 3, 2}})
    for (int64_t i = 0; i < stage.blocks; ++i, in = stage.out)
      net.append(WeightedResidual(in, stage.out, stage.kernel, i == 0 ? stage.stride : 1,
                                  stage.expansion));
  net.append(ConvNorm(in, 320, 1, 1, Activation::kSilu));
  net.append(mean_of_pixels);
  net.append(nn::Linear(320, classes));
  return net;
}

} // namespace weft::benchmarks
