// Tests of floating-point numbers (NaN, infinite, finite), as comparisons: these fuse and fold like
// any others.
#include <limits>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/tensor/impl.h"
#include "weft/ops.h"

namespace weft {

using namespace recorder;

namespace {

Var everywhere(bool value, const Shape &shape) {
  return broadcast(emit_constant(value, DType::kBool), shape);
}

// |x| compared with infinity. For integers the result is one constant: it is that of any finite
// number.
Tensor against_infinity(const char *name, const Tensor &x, Comparison comparison, bool of_integers,
                        Location location) {
  Session session(name, location);
  Var var = read(x, "x");
  if (!is_floating(var.dtype()))
    return wrap(everywhere(of_integers, var.dims()));
  Var infinity =
      broadcast(emit_constant(std::numeric_limits<double>::infinity(), var.dtype()), var.dims());
  return wrap(emit_compare(comparison, emit_abs(var), infinity));
}

} // namespace

Tensor is_nan(const Tensor &x, Location location) {
  Session session("is_nan", location);
  Var var = read(x, "x");
  if (!is_floating(var.dtype()))
    return wrap(everywhere(false, var.dims()));
  return wrap(emit_compare(Comparison::kNe, var, var));
}

Tensor is_inf(const Tensor &x, Location location) {
  return against_infinity("is_inf", x, Comparison::kEq, false, location);
}
Tensor is_finite(const Tensor &x, Location location) {
  return against_infinity("is_finite", x, Comparison::kLt, true, location);
}

} // namespace weft
