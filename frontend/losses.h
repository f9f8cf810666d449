// Losses over classes with PyTorch's further options, and losses with margins. The usual ones stand
// in weft/ops.h.
#pragma once

#include "weft/ops.h"

namespace weft {

struct ClassLossOptions {
  Tensor weight =
      {}; // [C], of the dtype of the first operand: how much each class counts; all 1 if undefined
  Reduction reduction = Reduction::kMean;
  int64_t ignore_index = -100; // targets of this value cost nothing and do not count
  // Of cross_entropy: the target becomes (1 - s) target + s / C (Szegedy et al. 2016).
  double label_smoothing = 0;
  // The dim of the classes: 1 for [N, C, H, W] and targets [N, H, W].
  int64_t dim = -1;
};

// logits [.., C]. targets: class indices [..] (int32 or int64), or probabilities [.., C] of the
// logits' dtype, of which none is left out. With options.dim, C is another dim, which indices go
// without. kMean divides by the sum of the targets' weights, for probabilities by the number of
// rows, as PyTorch does. A class index outside [0, C) is an error of the run. Throws Error unless
// 0 <= label_smoothing <= 1, and for probabilities with an ignore_index of 0 or more.
Tensor cross_entropy(const Tensor &logits, const Tensor &targets, const ClassLossOptions &options,
                     Location location = Location::current());

// log_probs [.., C], or C where options.dim says; targets [..] of class indices. kMean divides by
// the sum of the targets' weights. Throws Error for label_smoothing, which is cross_entropy's.
Tensor nll_loss(const Tensor &log_probs, const Tensor &targets, const ClassLossOptions &options,
                Location location = Location::current());

// --- With PyTorch's formulas and defaults. Operands are floating and of one dtype; targets of 1
// and -1 may be integers. ---

// max(0, -target (x - y) + margin), elementwise, where target is 1 if x should be the larger one,
// else -1. The three broadcast.
Tensor margin_ranking_loss(const Tensor &x, const Tensor &y, const Tensor &target,
                           double margin = 0, Reduction reduction = Reduction::kMean,
                           Location location = Location::current());
// 1 - cos(x, y) where target is 1, max(0, cos(x, y) - margin) where it is -1. x, y [.., d], target
// [..].
Tensor cosine_embedding_loss(const Tensor &x, const Tensor &y, const Tensor &target,
                             double margin = 0, Reduction reduction = Reduction::kMean,
                             Location location = Location::current());
struct TripletMarginOptions {
  double margin = 1;
  double eps = 1e-6; // is added to differences
  bool swap = false; // the negative's distance is the smaller one of those to anchor and positive
                     // (Balntas et al. 2016)
  Reduction reduction = Reduction::kMean;
};
// max(0, |anchor - positive| - |anchor - negative| + margin) with Euclidean distances along the
// last dim. Three of one shape [.., d].
Tensor triplet_margin_loss(const Tensor &anchor, const Tensor &positive, const Tensor &negative,
                           TripletMarginOptions options = {},
                           Location location = Location::current());
// x where target is 1, max(0, margin - x) where it is -1.
Tensor hinge_embedding_loss(const Tensor &x, const Tensor &target, double margin = 1,
                            Reduction reduction = Reduction::kMean,
                            Location location = Location::current());
// log(1 + exp(-target x)), target of 1 and -1.
Tensor soft_margin_loss(const Tensor &x, const Tensor &target,
                        Reduction reduction = Reduction::kMean,
                        Location location = Location::current());
// sum over the classes j that are not the target t of max(0, margin - x[t] + x[j])^p / C, p 1 or 2.
// x [.., C], targets [..] of class indices; one outside [0, C) is an error of the run.
Tensor multi_margin_loss(const Tensor &x, const Tensor &targets, int64_t p = 1, double margin = 1,
                         Reduction reduction = Reduction::kMean,
                         Location location = Location::current());
// -(target log(x) + (1 - target) log(1 - x)) of probabilities x in [0, 1], logarithms not below
// -100. The gradient of x is (x - target) / max(x (1 - x), 1e-12), as PyTorch's. A run fails where
// an element of x or target is not in [0, 1] (NaN is not). Where x is sigmoid(z),
// binary_cross_entropy_with_logits of z is exact where this is not.
Tensor binary_cross_entropy(const Tensor &x, const Tensor &target,
                            Reduction reduction = Reduction::kMean,
                            Location location = Location::current());
// exp(x) - target x, where x is the logarithm of the rate; without log_input, x - target log(x +
// eps).
Tensor poisson_nll_loss(const Tensor &x, const Tensor &target, bool log_input = true,
                        double eps = 1e-8, Reduction reduction = Reduction::kMean,
                        Location location = Location::current());

} // namespace weft
