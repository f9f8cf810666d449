// Activations that are compositions: they fuse into one kernel, forward and backward. 16-bit floats are computed in float32 and rounded
// once.
#include "frontend/ops/promotion.h"
#include "frontend/recorder/emit.h"
#include "frontend/tensor/impl.h"
#include "weft/ops.h"

namespace weft {

using namespace recorder;

namespace {

// f(x), in the dtype in which functions are computed.
template <typename F> Tensor computed(const Tensor &x, F f) {
  Var given = floating_operand(x);
  return wrap(rounded(f(widened(given)), given.dtype()));
}

} // namespace

Tensor silu(const Tensor &x, Location location) {
  Session session("silu", location);
  return computed(x, [](const Var &var) { return emit_binary(Binary::kMul, var, emit_unary(Unary::kSigmoid, var)); });
}

namespace {

// x above 0, else alpha * (exp(x) - 1), times scale. What is not taken is computed from 0: its overflow would come back as NaN from the
// derivative's product of infinity and 0.
Var exponential_unit(const Var &x, const Var &alpha) {
  Var zero = broadcast(emit_constant(0.0, x.dtype()), x.dims());
  Var above = emit_compare(Comparison::kGt, x, zero);
  Var curve = emit_unary(Unary::kExpm1, emit_select(above, zero, x));
  return emit_select(above, x, emit_binary(Binary::kMul, broadcast(alpha, x.dims()), curve));
}

} // namespace

Tensor elu(const Tensor &x, Scalar alpha, Location location) {
  Session session("elu", location);
  return computed(x, [&](const Var &var) { return exponential_unit(var, make_scalar(alpha, var.dtype())); });
}

Tensor selu(const Tensor &x, Location location) {
  Session session("selu", location);
  return computed(x, [](const Var &var) {
    Var scale = broadcast(emit_constant(1.0507009873554804934193349852946, var.dtype()), var.dims());
    return emit_binary(Binary::kMul, scale, exponential_unit(var, emit_constant(1.6732632423543772848170429916717, var.dtype())));
  });
}

Tensor leaky_relu(const Tensor &x, Scalar slope, Location location) {
  Session session("leaky_relu", location);
  return computed(x, [&](const Var &var) {
    Var above = emit_compare(Comparison::kGt, var, broadcast(emit_constant(0.0, var.dtype()), var.dims()));
    Var below = emit_binary(Binary::kMul, var, broadcast(make_scalar(slope, var.dtype()), var.dims()));
    return emit_select(above, var, below);
  });
}

Tensor log_sigmoid(const Tensor &x, Location location) {
  Session session("log_sigmoid", location);
  return computed(x, [](const Var &var) { return emit_unary(Unary::kNeg, emit_unary(Unary::kSoftplus, emit_unary(Unary::kNeg, var))); });
}

Tensor mish(const Tensor &x, Location location) {
  Session session("mish", location);
  return computed(
      x, [](const Var &var) { return emit_binary(Binary::kMul, var, emit_unary(Unary::kTanh, emit_unary(Unary::kSoftplus, var))); });
}

namespace {

// clamp(x + 3, 0, 6) / 6 of an x in the dtype in which functions are computed.
Tensor hard_gate(const Tensor &x, Location location) { return clamp(x + 3.0, 0.0, 6.0, location) / 6.0; }

} // namespace

Tensor hardsigmoid(const Tensor &x, Location location) {
  Session session("hardsigmoid", location);
  Var given = floating_operand(x);
  return wrap(rounded(read(hard_gate(wrap(widened(given)), location), "x"), given.dtype()));
}

Tensor hardswish(const Tensor &x, Location location) {
  Session session("hardswish", location);
  Var given = floating_operand(x);
  Tensor wide = wrap(widened(given));
  return wrap(rounded(read(wide * hard_gate(wide, location), "x"), given.dtype()));
}

} // namespace weft
