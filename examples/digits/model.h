// A small residual network for images of digits.
#pragma once

#include <optional>

#include "weft/nn/nn.h"

namespace digits {

// Two 3x3 convolutions beside what they are added to (He et al. 2016); `stride` 2 halves height and
// width.
class Block : public weft::nn::Module {
public:
  Block(int64_t in, int64_t out, int64_t stride);
  weft::Tensor operator()(const weft::Tensor &x) const;

private:
  weft::nn::Conv2d first_, second_;
  weft::nn::BatchNorm2d first_norm_, second_norm_;
  bool reshapes_; // the sum's other side has another shape: a 1x1 convolution makes it fit
  std::optional<weft::nn::Conv2d> skip_;
};

struct ModelSizes {
  int64_t width = 32; // channels of the first block; each further one has twice as many
  int64_t classes = 10;
  bool operator==(const ModelSizes &) const = default;
};

// images: float32 [batch, 1, H, W], H and W at least 4 -> logits [batch, classes].
class DigitsNet : public weft::nn::Module {
public:
  explicit DigitsNet(const ModelSizes &sizes);
  weft::Tensor operator()(const weft::Tensor &images) const;

private:
  weft::nn::Conv2d stem_;
  weft::nn::BatchNorm2d stem_norm_;
  Block same_, half_;
  weft::nn::AdaptiveAvgPool2d pool_;
  weft::nn::Linear head_;
};

} // namespace digits
