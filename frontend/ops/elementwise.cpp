// Elementwise functions and operators.
#include <optional>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/tensor/impl.h"
#include "weft/ops.h"

namespace weft {

using namespace recorder;

namespace {

// takes: what operands the op's record has. Those of numbers take integers as they are; the others
// compute in floating point.
Tensor unary(Var (*op)(const Var &), std::string_view takes, const char *name, const Tensor &x,
             Location location) {
  Session session(name, location);
  Var var = read(x, "x");
  if (!is_floating(var.dtype()) && takes != "numeric")
    var = emit_cast(var, DType::kFloat32);
  if (var.dtype() == DType::kBool && op == emit_sign)
    return wrap(var); // as in PyTorch: false and true are their own signs
  if (var.dtype() == DType::kBool)
    fail(ErrorKind::kDType, "x is bool " + to_string(var.dims()) + "; convert it with to() first");
  return wrap(op(var));
}

Tensor binary(EmitBinary op, const char *name, const TensorArg &x, const TensorArg &y,
              Location location, bool floating = false) {
  Session session(name, location);
  return wrap(arithmetic(op, name, x, y, floating));
}

Tensor compare(Comparison comparison, const char *name, const TensorArg &x, const TensorArg &y,
               Location location) {
  Session session(name, location);
  Operands operands = promote(x, y);
  return wrap(emit_compare(comparison, operands.x, operands.y));
}

// A bool tensor: x != 0.
Var truth(const TensorArg &x, const char *name) {
  return rounded(operand(x, result_type({&x, 1}), name), DType::kBool);
}

Tensor logical(EmitBinary op, const char *name, const TensorArg &x, const TensorArg &y,
               Location location) {
  Session session(name, location);
  Var a = truth(x, "x"), b = truth(y, "y");
  Shape shape = broadcast_shape(a.dims(), b.dims(), "x", "y");
  return wrap(op(broadcast(a, shape), broadcast(b, shape)));
}

Tensor bitwise(EmitBinary op, const char *name, const TensorArg &x, const TensorArg &y,
               Location location) {
  Session session(name, location);
  Operands operands = promote(x, y);
  if (is_floating(operands.x.dtype()))
    fail(ErrorKind::kDType, std::string("the operands are ") + weft::name(operands.x.dtype()) +
                                "; bits are for bool and integers");
  return wrap(op(operands.x, operands.y));
}

Tensor shift(EmitBinary op, const char *name, const TensorArg &x, const TensorArg &y,
             Location location) {
  Session session(name, location);
  Operands operands = promote(x, y);
  if (!is_integer(operands.x.dtype()))
    fail(ErrorKind::kDType, std::string("the operands are ") + weft::name(operands.x.dtype()) +
                                "; only the bits of integers move");
  return wrap(op(operands.x, operands.y));
}

} // namespace

#define WEFT_UNARY(function, record, operands, doc)                                                \
  Tensor function(const Tensor &x, Location location) {                                            \
    return unary(emit_##function, #operands, #function, x, location);                              \
  }
#define WEFT_BINARY(function, record, operands, doc)                                               \
  Tensor function(TensorArg x, TensorArg y, Location location) {                                   \
    return binary(emit_##function, #function, x, y, location);                                     \
  }

#include "weft/ops/elementwise.inc"
#undef WEFT_UNARY
#undef WEFT_BINARY

Tensor add(TensorArg x, TensorArg y, Scalar alpha, Location location) {
  Session session("add", location);
  return wrap(arithmetic(emit_add, "add", x, y, /*floating=*/false, alpha));
}

Tensor sub(TensorArg x, TensorArg y, Scalar alpha, Location location) {
  Session session("sub", location);
  return wrap(arithmetic(emit_sub, "sub", x, y, /*floating=*/false, alpha));
}

Tensor div(TensorArg x, TensorArg y, Location location) {
  return binary(emit_div, "div", x, y, location, true);
}

Tensor remainder(TensorArg x, TensorArg y, Location location) {
  return binary(emit_rem, "remainder", x, y, location);
}

Tensor atan2(TensorArg y, TensorArg x, Location location) {
  return binary(emit_atan2, "atan2", y, x, location, true);
}

Tensor square(const Tensor &x, Location location) {
  Session session("square", location);
  Var var = read(x, "x");
  if (var.dtype() == DType::kBool)
    var = emit_cast(var, DType::kInt64);
  return wrap(emit_mul(var, var));
}

Tensor gelu(const Tensor &x, std::string_view approximate, Location location) {
  Session session("gelu", location);
  if (approximate != "none" && approximate != "tanh")
    fail(ErrorKind::kValue,
         "approximate is \"" + std::string(approximate) + "\"; it must be \"none\" or \"tanh\"");
  return wrap(emit_gelu(floating_operand(x), approximate == "tanh"));
}

Tensor logical_not(const Tensor &x, Location location) {
  Session session("logical_not", location);
  return wrap(emit_not(truth(x, "x")));
}
Tensor logical_xor(TensorArg x, TensorArg y, Location location) {
  return logical(emit_xor, "logical_xor", x, y, location);
}
Tensor logical_and(TensorArg x, TensorArg y, Location location) {
  return logical(emit_and, "logical_and", x, y, location);
}
Tensor logical_or(TensorArg x, TensorArg y, Location location) {
  return logical(emit_or, "logical_or", x, y, location);
}
Tensor bitwise_not(const Tensor &x, Location location) {
  Session session("bitwise_not", location);
  Var var = read(x, "x");
  if (is_floating(var.dtype()))
    fail(ErrorKind::kDType, "x is " + describe(var) + "; bits are for bool and integers");
  return wrap(emit_not(var));
}
Tensor bitwise_xor(TensorArg x, TensorArg y, Location location) {
  return bitwise(emit_xor, "bitwise_xor", x, y, location);
}
Tensor bitwise_and(TensorArg x, TensorArg y, Location location) {
  return bitwise(emit_and, "bitwise_and", x, y, location);
}
Tensor bitwise_or(TensorArg x, TensorArg y, Location location) {
  return bitwise(emit_or, "bitwise_or", x, y, location);
}
Tensor bitwise_left_shift(TensorArg x, TensorArg y, Location location) {
  return shift(emit_shift_left, "bitwise_left_shift", x, y, location);
}
Tensor bitwise_right_shift(TensorArg x, TensorArg y, Location location) {
  return shift(emit_shift_right, "bitwise_right_shift", x, y, location);
}

Tensor eq(TensorArg x, TensorArg y, Location location) {
  return compare(Comparison::kEq, "eq", x, y, location);
}
Tensor ne(TensorArg x, TensorArg y, Location location) {
  return compare(Comparison::kNe, "ne", x, y, location);
}
Tensor lt(TensorArg x, TensorArg y, Location location) {
  return compare(Comparison::kLt, "lt", x, y, location);
}
Tensor le(TensorArg x, TensorArg y, Location location) {
  return compare(Comparison::kLe, "le", x, y, location);
}
Tensor gt(TensorArg x, TensorArg y, Location location) {
  return compare(Comparison::kGt, "gt", x, y, location);
}
Tensor ge(TensorArg x, TensorArg y, Location location) {
  return compare(Comparison::kGe, "ge", x, y, location);
}

#define WEFT_OPERATOR(symbol, function)                                                            \
  Tensor operator symbol(TensorArg a, TensorArg b) {                                               \
    return function(a, b, a.location());                                                           \
  }
WEFT_OPERATOR(+, add)
WEFT_OPERATOR(-, sub)
WEFT_OPERATOR(*, mul)
WEFT_OPERATOR(/, div)
WEFT_OPERATOR(&&, logical_and)
WEFT_OPERATOR(||, logical_or)
WEFT_OPERATOR(&, bitwise_and)
WEFT_OPERATOR(|, bitwise_or)
WEFT_OPERATOR(^, bitwise_xor)
WEFT_OPERATOR(<<, bitwise_left_shift)
WEFT_OPERATOR(>>, bitwise_right_shift)
WEFT_OPERATOR(%, remainder)
WEFT_OPERATOR(==, eq)
WEFT_OPERATOR(!=, ne)
WEFT_OPERATOR(<, lt)
WEFT_OPERATOR(<=, le)
WEFT_OPERATOR(>, gt)
WEFT_OPERATOR(>=, ge)
#undef WEFT_OPERATOR
Tensor operator-(TensorArg a) {
  return neg(*a.tensor(), a.location());
}
Tensor operator!(TensorArg a) {
  return logical_not(*a.tensor(), a.location());
}
Tensor operator~(TensorArg a) {
  return bitwise_not(*a.tensor(), a.location());
}

Tensor where(const Tensor &condition, TensorArg x, TensorArg y, Location location) {
  Session session("where", location);
  Var c = read(condition, "condition");
  if (c.dtype() != DType::kBool)
    fail(ErrorKind::kDType, "condition is " + describe(c) + "; it must be bool");
  Operands operands = promote(x, y);
  // An integer that does not fit is no other one; a floating-point number becomes an infinity.
  if (is_integer(operands.result))
    for (const TensorArg *arg : {&x, &y})
      if (!arg->tensor())
        want_fitting(arg->scalar(), operands.result);
  Shape shape = broadcast_shape(c.dims(), operands.x.dims(), "condition", "x and y");
  return wrap(
      emit_select(broadcast(c, shape), broadcast(operands.x, shape), broadcast(operands.y, shape)));
}

Tensor masked_fill(const Tensor &x, const Tensor &mask, TensorArg value, Location location) {
  Session session("masked_fill", location);
  Var var = read(x, "x"), m = read(mask, "mask");
  if (m.dtype() != DType::kBool)
    fail(ErrorKind::kDType, "mask is " + describe(m) + "; it must be bool");
  Var fill = value.tensor() ? operand(value, var.dtype(), "value")
                            : make_fitting_scalar(value.scalar(), var.dtype());
  if (broadcast_shape(var.dims(), m.dims(), "x", "mask") != var.dims())
    fail(ErrorKind::kShape, "mask has shape " + to_string(m.dims()) +
                                ", which does not fit into x of shape " + to_string(var.dims()));
  if (broadcast_shape(var.dims(), fill.dims(), "x", "value") != var.dims())
    fail(ErrorKind::kShape, "value has shape " + to_string(fill.dims()) +
                                ", which does not fit into x of shape " + to_string(var.dims()));
  return wrap(emit_select(broadcast(m, var.dims()), broadcast(fill, var.dims()), var));
}

namespace {

// x between bounds of its shape, of which a null Var bounds nothing; NaN where one of them is.
Var between(Var x, const Var &low, const Var &high) {
  bool logic = x.dtype() == DType::kBool;
  if (low)
    x = (logic ? emit_or : emit_maximum)(x, low);
  if (high)
    x = (logic ? emit_and : emit_minimum)(x, high);
  return x;
}

// The same of numbers, whose derivative is 1 between them and 0 elsewhere: at a bound and at NaN,
// too.
Var between_numbers(const Var &x, const Var &low, const Var &high) {
  Var value = between(without_gradient(x), low, high);
  if (!may_have_gradient(x))
    return value;
  Var inside;
  if (low)
    inside = emit_compare(Comparison::kGt, x, low);
  if (high) {
    Var below = emit_compare(Comparison::kLt, x, high);
    inside = inside ? emit_and(inside, below) : below;
  }
  const Var *of[] = {&x};
  return emit_select(with_flat_history(inside, of), x, value);
}

} // namespace

Tensor clamp(const Tensor &x, std::optional<Scalar> min, std::optional<Scalar> max,
             Location location) {
  Session session("clamp", location);
  if (!min && !max)
    fail(ErrorKind::kValue, "give min, max or both");
  std::vector<TensorArg> args = {x};
  if (min)
    args.emplace_back(*min, location);
  if (max)
    args.emplace_back(*max, location);
  DType dtype = result_type(args);
  Var input = operand(args[0], dtype, "x");
  auto bound = [&](const std::optional<Scalar> &scalar, int position, const char *name) {
    return scalar ? broadcast(make_specialized_scalar(
                                  bound_for(*scalar, dtype, position == 1, name), dtype, position),
                              input.dims())
                  : Var();
  };
  return wrap(between_numbers(input, bound(min, 1, "min"), bound(max, 2, "max")));
}

Tensor clamp(const Tensor &x, const Tensor &min, const Tensor &max, Location location) {
  Session session("clamp", location);
  if (!min.defined() && !max.defined())
    fail(ErrorKind::kValue, "give min, max or both");
  std::vector<TensorArg> args = {x};
  if (min.defined())
    args.emplace_back(min, location);
  if (max.defined())
    args.emplace_back(max, location);
  DType dtype = result_type(args);
  Var input = operand(args[0], dtype, "x"), low, high;
  if (min.defined())
    low = operand(TensorArg(min, location), dtype, "min");
  if (max.defined())
    high = operand(TensorArg(max, location), dtype, "max");
  Shape shape = input.dims();
  if (low)
    shape = broadcast_shape(shape, low.dims(), "x", "min");
  if (high)
    shape = broadcast_shape(shape, high.dims(), "x", "max");
  return wrap(between(broadcast(input, shape), low ? broadcast(low, shape) : low,
                      high ? broadcast(high, shape) : high));
}

Tensor clamp_min(const Tensor &x, TensorArg min, Location location) {
  Session session("clamp_min", location);
  if (!min.tensor())
    return clamp(x, min.scalar());
  checked(*min.tensor(), "min");
  return clamp(x, *min.tensor(), Tensor());
}

Tensor clamp_max(const Tensor &x, TensorArg max, Location location) {
  Session session("clamp_max", location);
  if (!max.tensor())
    return clamp(x, std::nullopt, max.scalar());
  checked(*max.tensor(), "max");
  return clamp(x, Tensor(), *max.tensor());
}

Tensor cast(const Tensor &x, DType dtype, Location location) {
  Session session("to", location);
  if (checked(x, "x")->type->dtype == dtype)
    return x;
  return wrap(emit_cast(read(x, "x"), dtype));
}

} // namespace weft
