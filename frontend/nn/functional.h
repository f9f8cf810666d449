// Losses, under the names that training code looks for in nn.
#pragma once

#include "weft/losses.h"

namespace weft::nn {

using weft::binary_cross_entropy;
using weft::binary_cross_entropy_with_logits;
using weft::ClassLossOptions;
using weft::cosine_embedding_loss;
using weft::cross_entropy;
using weft::hinge_embedding_loss;
using weft::huber_loss;
using weft::kl_div;
using weft::l1_loss;
using weft::margin_ranking_loss;
using weft::multi_margin_loss;
using weft::nll_loss;
using weft::poisson_nll_loss;
using weft::Reduction;
using weft::smooth_l1_loss;
using weft::soft_margin_loss;
using weft::triplet_margin_loss;
using weft::TripletMarginOptions;

// The squared difference: its mean (default), sum, or each element's.
inline Tensor mse(const Tensor &input, const Tensor &target, Reduction reduction = Reduction::kMean,
                  Location location = Location::current()) {
  return weft::mse_loss(input, target, reduction, location);
}

} // namespace weft::nn
