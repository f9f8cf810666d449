// Losses with margins and of distributions: compositions, computed in float32 for 16-bit floats and
// rounded once.
#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/tensor/autocast.h"
#include "frontend/tensor/impl.h"
#include "weft/composites.h"
#include "weft/losses.h"

namespace weft {

using namespace recorder;

namespace {

Tensor computed(const Tensor &x, const char *argument) {
  return wrap(widened(floating_only(x, argument)));
}

void want_equal(const Tensor &x, const char *x_name, const Tensor &y, const char *y_name) {
  const TypeInfo *a = checked(x, x_name)->type, *b = checked(y, y_name)->type;
  if (a->dims != b->dims || a->device != b->device || call_dtype(a->dtype) != call_dtype(b->dtype))
    fail(a->dims == b->dims ? ErrorKind::kDType : ErrorKind::kShape,
         std::string(x_name) + " is " + describe(*a) + ", " + y_name + " is " + describe(*b) +
             ": they must have one shape and one dtype");
}

// Targets beside x, in its dtype; of 1 and -1, which may be integers.
Tensor signs(const Tensor &target, const Tensor &x, const Shape &expected) {
  const TypeInfo &type = *checked(target, "target")->type;
  if (type.dims != expected)
    fail(ErrorKind::kShape, "target has shape " + to_string(type.dims) + "; it must be " +
                                to_string(expected) + ", one for each loss");
  return target.to(x.dtype());
}

Tensor reduced(const Tensor &loss, Reduction reduction, DType dtype) {
  Tensor result = reduction == Reduction::kNone  ? loss
                  : reduction == Reduction::kSum ? loss.sum()
                                                 : loss.mean();
  return result.to(call_dtype(dtype));
}

Shape without_last(const Tensor &x, const char *argument) {
  const Shape &dims = checked(x, argument)->type->dims;
  if (dims.empty())
    fail(ErrorKind::kShape, std::string(argument) + " has no dimensions; it must be [.., d]");
  return Shape(dims.begin(), dims.end() - 1);
}

// |x - y + eps| along the last dim.
Tensor distance(const Tensor &x, const Tensor &y, double eps) {
  return norm(x - y + eps, 2, -1);
}

} // namespace

Tensor margin_ranking_loss(const Tensor &x, const Tensor &y, const Tensor &target, double margin,
                           Reduction reduction, Location location) {
  Session session("margin_ranking_loss", location);
  Tensor a = computed(x, "x"), b = computed(y, "y");
  if (a.dtype() != b.dtype())
    fail(ErrorKind::kDType, "x is " + describe(*x.impl()->type) + ", y is " +
                                describe(*y.impl()->type) + ": they must have one dtype");
  Tensor t = wrap(operand(TensorArg(target, location), a.dtype(), "target"));
  return reduced(relu(margin - t * (a - b)), reduction, x.dtype());
}

Tensor cosine_embedding_loss(const Tensor &x, const Tensor &y, const Tensor &target, double margin,
                             Reduction reduction, Location location) {
  Session session("cosine_embedding_loss", location);
  want_equal(x, "x", y, "y");
  Tensor a = computed(x, "x"), b = computed(y, "y"), t = signs(target, a, without_last(x, "x"));
  // PyTorch's: each sum of squares is kept away from 0 by itself.
  constexpr double kEps = 1e-12;
  Tensor cosine = (a * b).sum(-1) / sqrt((square(a).sum(-1) + kEps) * (square(b).sum(-1) + kEps));
  return reduced(where(t == 1, 1 - cosine, relu(cosine - margin)), reduction, x.dtype());
}

Tensor triplet_margin_loss(const Tensor &anchor, const Tensor &positive, const Tensor &negative,
                           TripletMarginOptions options, Location location) {
  Session session("triplet_margin_loss", location);
  want_equal(anchor, "anchor", positive, "positive");
  want_equal(anchor, "anchor", negative, "negative");
  without_last(anchor, "anchor");
  Tensor a = computed(anchor, "anchor"), p = computed(positive, "positive"),
         n = computed(negative, "negative");
  Tensor far = distance(a, n, options.eps);
  if (options.swap)
    far = minimum(far, distance(p, n, options.eps));
  return reduced(relu(distance(a, p, options.eps) - far + options.margin), options.reduction,
                 anchor.dtype());
}

Tensor hinge_embedding_loss(const Tensor &x, const Tensor &target, double margin,
                            Reduction reduction, Location location) {
  Session session("hinge_embedding_loss", location);
  Tensor a = computed(x, "x"), t = signs(target, a, x.shape());
  return reduced(where(t == 1, a, relu(margin - a)), reduction, x.dtype());
}

Tensor soft_margin_loss(const Tensor &x, const Tensor &target, Reduction reduction,
                        Location location) {
  Session session("soft_margin_loss", location);
  Tensor a = computed(x, "x"), t = signs(target, a, x.shape());
  return reduced(softplus(-t * a), reduction, x.dtype());
}

Tensor multi_margin_loss(const Tensor &x, const Tensor &targets, int64_t p, double margin,
                         Reduction reduction, Location location) {
  Session session("multi_margin_loss", location);
  if (p != 1 && p != 2)
    fail(ErrorKind::kValue, "p is " + std::to_string(p) + "; it must be 1 or 2");
  Tensor a = computed(x, "x");
  Var t = read(targets, "targets");
  if (t.dtype() != DType::kInt32 && t.dtype() != DType::kInt64)
    fail(ErrorKind::kDType, "targets is " + describe(t) + "; class indices must be int32 or int64");
  if (a.ndim() == 0 || t.dims() != without_last(x, "x"))
    fail(ErrorKind::kShape,
         "x has shape " + to_string(a.shape()) + ", targets have shape " + to_string(t.dims()) +
             ": x must be [.., classes] and targets [..], with equal leading dimensions");
  int64_t classes = a.shape().back();
  Tensor is_target =
      arange(classes) == wrap(emit_check_index(t, classes, "weft.multi_margin_loss")).unsqueeze(-1);
  Tensor chosen = where(is_target, a, 0.0).sum(-1, true);
  Tensor excess = relu(margin - chosen + a);
  if (p == 2)
    excess = square(excess);
  return reduced(where(is_target, 0.0, excess).sum(-1) / static_cast<double>(classes), reduction,
                 x.dtype());
}

Tensor binary_cross_entropy(const Tensor &x, const Tensor &target, Reduction reduction,
                            Location location) {
  Session session("binary_cross_entropy", location);
  want_equal(x, "x", target, "target");
  Tensor a = computed(x, "x"), t = computed(target, "target");
  // At least -100. Its derivative is that of log where y (1 - y) >= 1e-12, and finite elsewhere, as
  // PyTorch's: (1 - y) / max(y (1 - y), 1e-12). So the difference, which is 0, has the history.
  auto bounded = [](const Tensor &y) {
    Tensor value = clamp(log(y), -100.0);
    if (!may_have_gradient(read(y, "x")))
      return value;
    constexpr double kLeast = 1e-12;
    Tensor known = y.detach(), positive = maximum(known, kLeast);
    Tensor slope = (1 - known) / maximum(known * (1 - known), kLeast) * positive;
    Tensor smooth = log(y + (positive - known)) * slope;
    return value.detach() + (smooth - smooth.detach());
  };
  auto beyond = [](const Tensor &y) {
    return !((y.detach() >= 0) & (y.detach() <= 1)); // NaN, too
  };
  Var zero = emit_check_index(read((beyond(a) | beyond(t)).to(int32), "x"), 1,
                              "binary_cross_entropy: an element of x or target is not in [0, "
                              "1]; where x are no probabilities, but what a sigmoid would be "
                              "of, use binary_cross_entropy_with_logits");
  t = t + wrap(std::move(zero)).to(t.dtype()); // 0, which has the loss computed after the check
  return reduced(-(t * bounded(a) + (1 - t) * bounded(1 - a)), reduction, x.dtype());
}

Tensor poisson_nll_loss(const Tensor &x, const Tensor &target, bool log_input, double eps,
                        Reduction reduction, Location location) {
  Session session("poisson_nll_loss", location);
  want_equal(x, "x", target, "target");
  Tensor a = computed(x, "x"), t = computed(target, "target");
  return reduced(log_input ? exp(a) - t * a : a - t * log(a + eps), reduction, x.dtype());
}

} // namespace weft
