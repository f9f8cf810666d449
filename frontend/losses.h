// Losses over classes with PyTorch's further options. Those without stand in weft/ops.h.
#pragma once

#include "weft/ops.h"

namespace weft {

struct ClassLossOptions {
  Tensor weight = {}; // [C], of the dtype of the first operand: how much each class counts; all 1 if undefined
  Reduction reduction = Reduction::kMean;
  int64_t ignore_index = -100; // targets of this value cost nothing and do not count
  // Of cross_entropy: the target becomes (1 - s) target + s / C (Szegedy et al. 2016).
  double label_smoothing = 0;
};

// logits [.., C]. targets: class indices [..] (int32 or int64), or probabilities [.., C] of the logits' dtype, which ignore_index does not
// concern. kMean divides by the sum of the targets' weights, for probabilities by the number of rows, as PyTorch does. A class
// index outside [0, C) is an error of the run. Throws Error unless 0 <= label_smoothing <= 1.
Tensor cross_entropy(const Tensor &logits, const Tensor &targets, const ClassLossOptions &options, Location location = Location::current());

// log_probs [.., C], targets [..] of class indices. kMean divides by the sum of the targets' weights. Throws Error for label_smoothing,
// which is cross_entropy's.
Tensor nll_loss(const Tensor &log_probs, const Tensor &targets, const ClassLossOptions &options, Location location = Location::current());

} // namespace weft
