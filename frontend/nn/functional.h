// Losses, under the names that training code looks for in nn.
#pragma once

#include "weft/losses.h"

namespace weft::nn {

using weft::binary_cross_entropy_with_logits;
using weft::ClassLossOptions;
using weft::cross_entropy;
using weft::huber_loss;
using weft::kl_div;
using weft::l1_loss;
using weft::nll_loss;
using weft::Reduction;
using weft::smooth_l1_loss;

// The squared difference: its mean (default), sum, or each element's.
inline Tensor mse(const Tensor &input, const Tensor &target, Reduction reduction = Reduction::kMean,
                  Location location = Location::current()) {
  return weft::mse_loss(input, target, reduction, location);
}

} // namespace weft::nn
