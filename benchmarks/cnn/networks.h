// The networks of the suite `cnn`, for images of 3 channels. peers.py has the same ones.
#pragma once

#include <cstdint>

#include "weft/nn/nn.h"

namespace weft::benchmarks {

// ResNet-18 (He et al. 2016, "Deep Residual Learning for Image Recognition", table 1).
// images: float32 [batch, 3, H, W], H and W at least 32 -> logits [batch, classes].
nn::Sequential resnet18(int64_t classes);

// ResNet-50, of the same table: three convolutions a block.
nn::Sequential resnet50(int64_t classes);

// MobileNetV2 (Sandler et al. 2018, table 2), of width 1. images: float32 [batch, 3, H, W], H and W
// at least 32 -> logits.
nn::Sequential mobilenet(int64_t classes);

// SqueezeNet 1.1 (Iandola et al. 2016, and the smaller one that its authors gave later). images:
// float32 [batch, 3, H, W], H and W at least 32 -> logits.
nn::Sequential squeezenet(int64_t classes);

// The first half of EfficientNet-B0 (Tan and Le 2019, table 1), whose first block expands as well.
// images: float32 [batch, 3, H, W], H and W at least 32 -> logits.
nn::Sequential efficientnet(int64_t classes);

} // namespace weft::benchmarks
