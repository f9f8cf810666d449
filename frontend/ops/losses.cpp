// Losses that are compositions: forward and backward fuse with what feeds them. cross_entropy, a
// composite op, stands with the others.
#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/tensor/impl.h"
#include "weft/ops.h"
#include "weft/warning.h"

namespace weft {

using namespace recorder;

namespace {

struct Pair {
  Var x, y;    // in the dtype in which the loss is computed
  DType dtype; // of the loss
};

// input and target promoted to one floating dtype; they must have one shape. broadcasts: other
// shapes that broadcast warn, as in PyTorch.
Pair pair(const Tensor &input, const Tensor &target, bool broadcasts = false) {
  const Shape &x = checked(input, "input")->type->dims, &y = checked(target, "target")->type->dims;
  if (x != y) {
    std::string shapes = "input has shape " + to_string(x) + ", target has shape " + to_string(y);
    if (!broadcasts)
      fail(ErrorKind::kShape, shapes + ": they must be equal");
    broadcast_shape(x, y, "input", "target");
    warn(std::string(Session::op()) + ": " + shapes +
             ": they broadcast, so that elements of one meet several of the other; give both one "
             "shape",
         Session::location());
  }
  Operands operands = promote(input, target, true);
  return {widened(operands.x), widened(operands.y), operands.result};
}

Shape all_dims(const Var &x) {
  Shape dims(x.ndim());
  for (int64_t i = 0; i < x.ndim(); ++i)
    dims[i] = i;
  return dims;
}

Tensor reduced(const Var &loss, Reduction reduction, DType dtype) {
  if (reduction == Reduction::kNone || loss.ndim() == 0)
    return wrap(rounded(loss, dtype));
  Var result =
      (reduction == Reduction::kSum ? emit_reduce_sum : emit_reduce_mean)(loss, all_dims(loss));
  return wrap(rounded(result, dtype));
}

// Formulas on values of one shape.
Var number(double value, const Var &like) {
  return broadcast(emit_constant(value, like.dtype()), like.dims());
}
Var add(const Var &x, const Var &y) {
  return emit_add(x, y);
}
Var sub(const Var &x, const Var &y) {
  return emit_sub(x, y);
}
Var mul(const Var &x, const Var &y) {
  return emit_mul(x, y);
}
Var mul(const Var &x, double y) {
  return mul(x, number(y, x));
}

} // namespace

Tensor binary_cross_entropy_with_logits(const Tensor &input, const Tensor &target,
                                        Reduction reduction, const Tensor &pos_weight,
                                        Location location) {
  Session session("binary_cross_entropy_with_logits", location);
  auto [x, y, dtype] = pair(input, target);
  Var tail = emit_softplus(emit_neg(x));
  if (pos_weight.defined()) {
    Var weight = operand(TensorArg(pos_weight, location), x.dtype(), "pos_weight");
    if (broadcast_shape(x.dims(), weight.dims(), "input", "pos_weight") != x.dims())
      fail(ErrorKind::kShape, "pos_weight has shape " + to_string(weight.dims()) +
                                  ", which does not broadcast to input's " + to_string(x.dims()));
    weight = broadcast(weight, x.dims());
    tail = mul(add(mul(sub(weight, number(1, x)), y), number(1, x)), tail);
  }
  return reduced(add(mul(sub(number(1, x), y), x), tail), reduction, dtype);
}

Tensor l1_loss(const Tensor &input, const Tensor &target, Reduction reduction, Location location) {
  Session session("l1_loss", location);
  auto [x, y, dtype] = pair(input, target, /*broadcasts=*/true);
  return reduced(emit_abs(sub(x, y)), reduction, dtype);
}

namespace {

// d^2 / 2 where |d| < bound, else bound (|d| - bound / 2), times scale.
Var huber(const Var &x, const Var &y, double bound, double scale) {
  Var d = sub(x, y), size = emit_abs(d);
  Var far = emit_compare(Comparison::kGe, size, number(bound, size));
  // The square is of 0 where it is not taken: that of an infinity would come back as NaN from the
  // derivative's product with 0.
  Var small = emit_select(far, number(0, d), d);
  Var inside = mul(mul(small, small), 0.5 * scale),
      outside = mul(sub(size, number(0.5 * bound, size)), bound * scale);
  return emit_select(far, outside, inside);
}

} // namespace

Tensor huber_loss(const Tensor &input, const Tensor &target, double delta, Reduction reduction,
                  Location location) {
  Session session("huber_loss", location);
  if (!(delta > 0))
    fail(ErrorKind::kValue, "delta is " + std::to_string(delta) + "; it must be positive");
  auto [x, y, dtype] = pair(input, target, /*broadcasts=*/true);
  return reduced(huber(x, y, delta, 1), reduction, dtype);
}

Tensor smooth_l1_loss(const Tensor &input, const Tensor &target, double beta, Reduction reduction,
                      Location location) {
  Session session("smooth_l1_loss", location);
  if (!(beta >= 0))
    fail(ErrorKind::kValue, "beta is " + std::to_string(beta) + "; it must not be negative");
  if (beta == 0)
    return l1_loss(input, target, reduction, location);
  auto [x, y, dtype] = pair(input, target, /*broadcasts=*/true);
  return reduced(huber(x, y, beta, 1 / beta), reduction, dtype);
}

Tensor kl_div(const Tensor &input, const Tensor &target, Reduction reduction, bool log_target,
              Location location) {
  Session session("kl_div", location);
  auto [x, y, dtype] = pair(input, target);
  if (log_target)
    return reduced(mul(emit_exp(y), sub(y, x)), reduction, dtype);
  // 0 log(0) is 0 here, and its derivative must not be NaN: log(1) stands in for log(0).
  Var zero = emit_compare(Comparison::kEq, y, number(0, y));
  Var logarithm = emit_log(emit_select(zero, number(1, y), y));
  return reduced(sub(mul(y, logarithm), mul(y, x)), reduction, dtype);
}

Tensor mse_loss(const Tensor &input, const Tensor &target, Reduction reduction, Location location) {
  Session session("mse_loss", location);
  auto [x, y, dtype] = pair(input, target, /*broadcasts=*/true);
  Var d = sub(x, y);
  return reduced(mul(d, d), reduction, dtype);
}

} // namespace weft
