// Losses over classes. Those with weights, label smoothing, or targets that are probabilities are
// composed of the losses without these.
#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/tensor/impl.h"
#include "weft/losses.h"

namespace weft {

using namespace recorder;

namespace {

// The class weights, checked against the scores, whose dim `dim` is that of the classes; undefined
// where there are none.
Tensor checked_weight(const Tensor &weight, const Var &scores, int64_t dim, const char *argument) {
  if (!weight.defined())
    return Tensor();
  Var w = read(weight, "weight");
  int64_t classes = scores.dims()[dim];
  if (w.dims() != Shape{classes} || w.dtype() != scores.dtype())
    fail(ErrorKind::kShape, "weight is " + describe(w) + ", " + argument + " are " +
                                describe(scores) + ": weight must be " + name(scores.dtype()) +
                                " [" + std::to_string(classes) + "]");
  return weight;
}

// One number for each class, beside scores of `rank` dims.
Tensor along(const Tensor &each, int64_t dim, int64_t rank) {
  Shape shape(rank, 1);
  shape[dim] = -1;
  return each.reshape(shape);
}

// The dim of the classes, from the front.
int64_t class_dim(int64_t dim, const Var &scores, const char *argument) {
  if (scores.ndim() == 0)
    fail(ErrorKind::kShape, std::string(argument) + " have no dimension of classes");
  return normalize_dim(dim, scores.ndim(), "dim");
}

// Which targets count.
Var counted(const Var &targets, int64_t ignore_index) {
  return emit_compare(Comparison::kNe, targets,
                      broadcast(emit_constant(ignore_index, targets.dtype()), targets.dims()));
}

// -log_probs[target], 0 where the target is ignore_index, which `counts` says.
struct Chosen {
  Var loss, counts;
};
Chosen chosen(const Var &log_probs, Var t, int64_t dim, int64_t ignore_index, const char *argument,
              const char *op) {
  const Shape &dims = log_probs.dims();
  Shape without = dims, raised = dims;
  without.erase(without.begin() + dim);
  raised[dim] = 1;
  if (without != t.dims())
    fail(ErrorKind::kShape,
         std::string(argument) + " have shape " + to_string(dims) + ", targets have shape " +
             to_string(t.dims()) + ": with the classes in dim " + std::to_string(dim) +
             ", targets must be " + to_string(without) +
             "; ClassLossOptions::dim says which dim has the classes");
  t = emit_check_index(beside_ignore_index(std::move(t), ignore_index), dims[dim], op,
                       ignore_index);
  auto number = [](double value, const Var &like) {
    return broadcast(emit_constant(value, like.dtype()), like.dims());
  };
  // The chosen element is a masked sum over the classes: the derivative of that is a mask as well,
  // where a gather's would be a scatter.
  Var is_target = emit_compare(Comparison::kEq, emit_iota(t.dtype(), dims, dim),
                               emit_broadcast(emit_reshape(t, raised), dims));
  Var its_own = emit_select(is_target, log_probs, number(0, log_probs));
  Var loss = emit_neg(emit_reduce_sum(its_own, Shape{dim}));
  Var counts = counted(t, ignore_index);
  return {emit_select(counts, loss, number(0, loss)), counts};
}

// The loss of each target, reduced and rounded to `dtype`: the mean is by how many targets count,
// which counts() says.
template <typename Counts>
Tensor reduced(Var loss, Reduction reduction, DType dtype, const Counts &counts) {
  if (reduction == Reduction::kNone)
    return wrap(rounded(loss, dtype));
  Shape all;
  for (int64_t i = 0; i < loss.ndim(); ++i)
    all.push_back(i);
  auto sum = [&](const Var &x) {
    return all.empty() ? x : emit_reduce_sum(x, all);
  };
  Var total = sum(widened(loss));
  if (reduction == Reduction::kMean)
    total = emit_div(total, sum(emit_cast(counts(), total.dtype())));
  return wrap(rounded(total, dtype));
}
Tensor reduced(const Chosen &each, Reduction reduction, DType dtype) {
  return reduced(each.loss, reduction, dtype, [&] { return each.counts; });
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

Tensor cross_entropy(const Tensor &logits, const Tensor &targets, Reduction reduction,
                     int64_t ignore_index, Location location) {
  if (targets.defined() && is_floating(targets.dtype()))
    return cross_entropy(logits, targets,
                         ClassLossOptions{.reduction = reduction, .ignore_index = ignore_index},
                         location);
  Session session("cross_entropy", location);
  Var x = floating_only(logits, "logits"), t = index_operand(targets, "targets");
  if (x.ndim() == 0 || Shape(x.dims().begin(), x.dims().end() - 1) != t.dims())
    fail(ErrorKind::kShape,
         "logits have shape " + to_string(x.dims()) + ", targets have shape " +
             to_string(t.dims()) +
             ": logits must be [.., classes] and targets [..], with equal leading dimensions; "
             "ClassLossOptions{.dim = 1} is for logits [batch, classes, ..]");
  t = beside_ignore_index(std::move(t), ignore_index);
  return reduced(emit_cross_entropy(x, t, ignore_index)[0], reduction, x.dtype(),
                 [&] { return counted(t, ignore_index); });
}

Tensor cross_entropy(const Tensor &logits, const Tensor &targets, const ClassLossOptions &options,
                     Location location) {
  Session session("cross_entropy", location);
  double smoothing = options.label_smoothing;
  if (!(smoothing >= 0 && smoothing <= 1))
    fail(ErrorKind::kValue,
         "label_smoothing is " + std::to_string(smoothing) + "; it must be in [0, 1]");
  Var x = floating_only(logits, "logits"), t = read(targets, "targets");
  int64_t dim = class_dim(options.dim, x, "logits");
  Tensor weight = checked_weight(options.weight, x, dim, "logits");
  auto weighted = [&](const Tensor &terms) {
    return weight.defined() ? terms * along(weight, dim, x.ndim()) : terms;
  };
  double classes = static_cast<double>(x.dims()[dim]);
  if (is_floating(t.dtype())) {
    if (t.dims() != x.dims() || t.dtype() != x.dtype())
      fail(ErrorKind::kShape,
           "logits are " + describe(x) + ", targets are " + describe(t) +
               ": targets that are probabilities must have the logits' shape and dtype");
    if (options.ignore_index >= 0)
      fail(ErrorKind::kValue,
           "ignore_index is " + std::to_string(options.ignore_index) +
               ", but targets are probabilities, float numbers [.., classes], of which none is "
               "left out; weigh the classes with ClassLossOptions{.weight}, or give class indices");
    Tensor target = smoothing == 0 ? targets : targets * (1 - smoothing) + smoothing / classes;
    Tensor loss = -weighted(log_softmax(logits, dim) * target).sum(dim);
    return reduced(loss, options.reduction,
                   scalar(static_cast<double>(loss.numel()), loss.dtype()));
  }
  bool is_plain = !weight.defined() && smoothing == 0, is_last = dim == x.ndim() - 1;
  Reduction reduction = is_plain ? options.reduction : Reduction::kNone;
  Tensor loss;
  if (is_last) {
    loss = cross_entropy(logits, targets, reduction, options.ignore_index, location);
  } else {
    t = index_operand(targets, "targets");
    Var log_probs = widened(read(log_softmax(logits, dim), "logits"));
    loss = reduced(chosen(log_probs, t, dim, options.ignore_index, "logits", "weft.cross_entropy"),
                   reduction, x.dtype());
  }
  if (is_plain)
    return loss;
  Tensor weights = target_weights(targets, weight, options.ignore_index, loss.dtype());
  if (weight.defined())
    loss = loss * weights;
  if (smoothing != 0) {
    Tensor all = -weighted(log_softmax(logits, dim)).sum(dim);
    loss = loss * (1 - smoothing) +
           where(targets != options.ignore_index, all * (smoothing / classes), 0);
  }
  return reduced(loss, options.reduction, weights.sum());
}

Tensor nll_loss(const Tensor &log_probs, const Tensor &targets, const ClassLossOptions &options,
                Location location) {
  Session session("nll_loss", location);
  if (options.label_smoothing != 0)
    fail(ErrorKind::kValue, "label_smoothing is an option of cross_entropy");
  Var x = floating_only(log_probs, "log_probs"), t = index_operand(targets, "targets");
  int64_t dim = class_dim(options.dim, x, "log_probs");
  Tensor weight = checked_weight(options.weight, x, dim, "log_probs");
  Chosen each = chosen(widened(x), t, dim, options.ignore_index, "log_probs", "weft.nll_loss");
  if (!weight.defined())
    return reduced(each, options.reduction, x.dtype());
  Tensor loss = reduced(each, Reduction::kNone, x.dtype());
  Tensor weights = target_weights(targets, weight, options.ignore_index, loss.dtype());
  return reduced(loss * weights, options.reduction, weights.sum());
}

Tensor nll_loss(const Tensor &log_probs, const Tensor &targets, Reduction reduction,
                int64_t ignore_index, Location location) {
  return nll_loss(log_probs, targets, {.reduction = reduction, .ignore_index = ignore_index},
                  location);
}

} // namespace weft
