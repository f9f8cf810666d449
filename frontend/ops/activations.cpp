// Activations that are compositions: they fuse into one kernel, forward and backward. 16-bit floats
// are computed in float32 and rounded once.
#include <algorithm>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
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
  return computed(x, [](const Var &var) { return emit_mul(var, emit_sigmoid(var)); });
}

namespace {

// x above 0, else alpha * (exp(x) - 1). What is not taken is computed from 0: its overflow would
// come back as NaN from the derivative's product of infinity and 0. At 0 it is alpha * x, whose
// second derivative is 0, as PyTorch's.
Var exponential_unit(const Var &x, const Var &given) {
  Var zero = broadcast(emit_constant(0.0, x.dtype()), x.dims()), alpha = broadcast(given, x.dims());
  Var below = emit_compare(Comparison::kLt, x, zero);
  Var curve = emit_expm1(emit_select(below, x, zero));
  Var line = emit_select(emit_compare(Comparison::kEq, x, zero), emit_mul(alpha, x), x);
  return emit_select(below, emit_mul(alpha, curve), line);
}

} // namespace

Tensor elu(const Tensor &x, Scalar alpha, Location location) {
  Session session("elu", location);
  return computed(
      x, [&](const Var &var) { return exponential_unit(var, make_scalar(alpha, var.dtype())); });
}

Tensor celu(const Tensor &x, Scalar alpha, Location location) {
  Session session("celu", location);
  if (alpha.as_double() == 0)
    fail(ErrorKind::kValue, "alpha is 0; x / alpha has no value");
  return computed(x, [&](const Var &var) {
    Var scale = broadcast(make_scalar(alpha, var.dtype()), var.dims()),
        zero = broadcast(emit_constant(0.0, var.dtype()), var.dims());
    // The slope at 0 is 1 on both sides, and the second derivative there 0, as PyTorch's.
    Var below = emit_compare(Comparison::kLt, var, zero);
    Var curve = emit_expm1(emit_div(emit_select(below, var, zero), scale));
    return emit_select(below, emit_mul(scale, curve), var);
  });
}

Tensor selu(const Tensor &x, Location location) {
  Session session("selu", location);
  return computed(x, [](const Var &var) {
    Var scale =
        broadcast(emit_constant(1.0507009873554804934193349852946, var.dtype()), var.dims());
    return emit_mul(scale, exponential_unit(
                               var, emit_constant(1.6732632423543772848170429916717, var.dtype())));
  });
}

Tensor leaky_relu(const Tensor &x, Scalar slope, Location location) {
  Session session("leaky_relu", location);
  return computed(x, [&](const Var &var) {
    Var above =
        emit_mask(Comparison::kGt, var, broadcast(emit_constant(0.0, var.dtype()), var.dims()));
    Var below = emit_mul(var, broadcast(make_scalar(slope, var.dtype()), var.dims()));
    return emit_select(above, var, below);
  });
}

Tensor log_sigmoid(const Tensor &x, Location location) {
  Session session("log_sigmoid", location);
  return computed(x, [](const Var &var) { return emit_neg(emit_softplus(emit_neg(var))); });
}

Tensor mish(const Tensor &x, Location location) {
  Session session("mish", location);
  return computed(x, [](const Var &var) { return emit_mul(var, emit_tanh(emit_softplus(var))); });
}

Tensor hardtanh(const Tensor &x, Scalar low, Scalar high, Location location) {
  Session session("hardtanh", location);
  if (!(low.as_double() <= high.as_double()))
    fail(ErrorKind::kValue, "low " + std::to_string(low.as_double()) + " must not be above high " +
                                std::to_string(high.as_double()));
  // Of integers the bounds lose their fractions.
  DType dtype = checked(x, "x")->type->dtype;
  if (is_integer(dtype))
    for (Scalar *bound : {&low, &high})
      if (bound->dtype == DType::kFloat64)
        *bound = static_cast<int64_t>(std::clamp(bound->d, -0x1p63, 0x1.fffffffffffffp62));
  const TensorArg args[] = {x, TensorArg(low, location), TensorArg(high, location)};
  DType computed = result_type(args);
  Var var = operand(args[0], computed, "x");
  // Other than clamp's, its derivative at NaN is 1, as PyTorch's.
  auto bounded = [&](Comparison beyond, const Scalar &scalar, int position, const char *name) {
    Scalar number = bound_for(scalar, computed, position == 1, name);
    Var bound = broadcast(make_specialized_scalar(number, computed, position), var.dims());
    var = emit_select(emit_mask(beyond, var, bound), bound, var);
  };
  bounded(Comparison::kLe, low, 1, "low");
  bounded(Comparison::kGe, high, 2, "high");
  return wrap(rounded(std::move(var), dtype));
}

Tensor softsign(const Tensor &x, Location location) {
  Session session("softsign", location);
  return computed(x, [](const Var &var) {
    Var one = broadcast(emit_constant(1.0, var.dtype()), var.dims());
    return emit_div(var, emit_add(one, emit_abs(var)));
  });
}

Tensor tanhshrink(const Tensor &x, Location location) {
  Session session("tanhshrink", location);
  return computed(x, [](const Var &var) { return emit_sub(var, emit_tanh(var)); });
}

namespace {

// x where |x| > lambda, else 0; soft: less lambda times its sign. NaN stays.
Tensor shrunk(const Tensor &x, const Scalar &lambda, bool soft) {
  if (!(lambda.as_double() >= 0))
    fail(ErrorKind::kValue,
         "lambda is " + std::to_string(lambda.as_double()) + "; it must not be negative");
  return computed(x, [&](const Var &var) {
    Var bound = broadcast(make_scalar(lambda, var.dtype()), var.dims()),
        zero = broadcast(emit_constant(0.0, var.dtype()), var.dims());
    Var inside = emit_compare(Comparison::kLe, emit_abs(var), bound);
    Var kept = soft ? emit_sub(var, emit_mul(emit_sign(var), bound)) : var;
    return emit_select(inside, zero, kept);
  });
}

} // namespace

Tensor hardshrink(const Tensor &x, Scalar lambda, Location location) {
  Session session("hardshrink", location);
  return shrunk(x, lambda, false);
}

Tensor softshrink(const Tensor &x, Scalar lambda, Location location) {
  Session session("softshrink", location);
  return shrunk(x, lambda, true);
}

Tensor prelu(const Tensor &x, const Tensor &weight, Location location) {
  Session session("prelu", location);
  const TypeInfo &type = *checked(x, "x")->type, &given = *checked(weight, "weight")->type;
  int64_t channels = type.ndim() > 1 ? type.dims[1] : 1;
  if (given.ndim() > 1 || (given.elements != 1 && given.elements != channels))
    fail(ErrorKind::kShape,
         "weight has shape " + to_string(given.dims) + ", x has shape " + to_string(type.dims) +
             ": weight must have one element, or one for each channel (dimension 1)");
  Shape along(static_cast<size_t>(type.ndim()), 1);
  if (given.elements != 1)
    along[1] = channels;
  return where(x > 0, x, weight.reshape(along) * x);
}

Tensor glu(const Tensor &x, int64_t dim, Location location) {
  Session session("glu", location);
  const TypeInfo &type = *checked(x, "x")->type;
  int64_t axis = normalize_dim(dim, type.ndim(), "dim");
  if (type.ndim() == 0 || type.dims[axis] % 2 != 0)
    fail(ErrorKind::kShape, "x has shape " + to_string(type.dims) + ", whose dimension " +
                                std::to_string(axis) + " cannot be halved");
  int64_t half = type.dims[axis] / 2;
  Tensor value = wrap(widened(floating_operand(x.narrow(axis, 0, half)))),
         gate = wrap(widened(floating_operand(x.narrow(axis, half, half))));
  return wrap(rounded(read(value * sigmoid(gate), "x"), floating_operand(x).dtype()));
}

} // namespace weft
