// Losses over classes with weights, label smoothing, or targets that are probabilities. They are
// composed of the losses without these.
#include "frontend/ops/promotion.h"
#include "frontend/recorder/emit.h"
#include "frontend/tensor/impl.h"
#include "weft/losses.h"

namespace weft {

using namespace recorder;

namespace {

// The class weights, checked against the scores [.., C]; undefined where there are none.
Tensor checked_weight(const Tensor &weight, const Var &scores, const char *argument) {
  if (!weight.defined())
    return Tensor();
  if (scores.ndim() == 0)
    fail(ErrorKind::kShape, std::string(argument) + " have no dimension of classes");
  Var w = read(weight, "weight");
  if (w.dims() != Shape{scores.dims().back()} || w.dtype() != scores.dtype())
    fail(ErrorKind::kShape, "weight is " + describe(w) + ", " + argument + " are " +
                                describe(scores) + ": weight must be " + name(scores.dtype()) +
                                " [" + std::to_string(scores.dims().back()) + "]");
  return weight;
}

Tensor reduced(const Tensor &loss, Reduction reduction, const Tensor &count) {
  if (reduction == Reduction::kNone)
    return loss;
  return reduction == Reduction::kSum ? loss.sum() : loss.sum() / count;
}

// The weight of each target; 0 for an ignored one.
Tensor target_weights(const Tensor &targets, const Tensor &weight, int64_t ignore_index,
                      DType dtype) {
  Tensor counts = targets != ignore_index;
  if (!weight.defined())
    return counts.to(dtype);
  return where(counts, index_select(weight, 0, where(counts, targets, 0)), 0);
}

} // namespace

Tensor cross_entropy(const Tensor &logits, const Tensor &targets, const ClassLossOptions &options,
                     Location location) {
  Session session("cross_entropy", location);
  double smoothing = options.label_smoothing;
  if (!(smoothing >= 0 && smoothing <= 1))
    fail(ErrorKind::kValue,
         "label_smoothing is " + std::to_string(smoothing) + "; it must be in [0, 1]");
  Var x = floating_only(logits, "logits"), t = read(targets, "targets");
  Tensor weight = checked_weight(options.weight, x, "logits");
  if (is_floating(t.dtype())) {
    if (t.dims() != x.dims() || t.dtype() != x.dtype() || x.ndim() == 0)
      fail(ErrorKind::kShape,
           "logits are " + describe(x) + ", targets are " + describe(t) +
               ": targets that are probabilities must have the logits' shape and dtype");
    double classes = static_cast<double>(x.dims().back());
    Tensor target = smoothing == 0 ? targets : targets * (1 - smoothing) + smoothing / classes;
    Tensor terms = log_softmax(logits, -1) * target;
    Tensor loss = -(weight.defined() ? terms * weight : terms).sum(-1);
    return reduced(loss, options.reduction,
                   scalar(static_cast<double>(loss.numel()), loss.dtype()));
  }
  if (!weight.defined() && smoothing == 0)
    return cross_entropy(logits, targets, options.reduction, options.ignore_index, location);
  Tensor loss = cross_entropy(logits, targets, Reduction::kNone, options.ignore_index, location);
  Tensor weights = target_weights(targets, weight, options.ignore_index, loss.dtype());
  if (weight.defined())
    loss = loss * weights;
  if (smoothing != 0) {
    Tensor log_probs = log_softmax(logits, -1);
    Tensor all = -(weight.defined() ? log_probs * weight : log_probs).sum(-1);
    double share = smoothing / static_cast<double>(x.dims().back());
    loss = loss * (1 - smoothing) + where(targets != options.ignore_index, all * share, 0);
  }
  return reduced(loss, options.reduction, weights.sum());
}

Tensor nll_loss(const Tensor &log_probs, const Tensor &targets, const ClassLossOptions &options,
                Location location) {
  Session session("nll_loss", location);
  if (options.label_smoothing != 0)
    fail(ErrorKind::kValue, "label_smoothing is an option of cross_entropy");
  Tensor weight =
      checked_weight(options.weight, floating_only(log_probs, "log_probs"), "log_probs");
  if (!weight.defined())
    return nll_loss(log_probs, targets, options.reduction, options.ignore_index, location);
  Tensor loss = nll_loss(log_probs, targets, Reduction::kNone, options.ignore_index, location);
  Tensor weights = target_weights(targets, weight, options.ignore_index, loss.dtype());
  return reduced(loss * weights, options.reduction, weights.sum());
}

} // namespace weft
