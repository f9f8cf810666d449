#include "frontend/ops/promotion.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

#include "frontend/recorder/record/emit.h"
#include "frontend/tensor/autocast.h"
#include "frontend/tensor/impl.h"

namespace weft {

DType promote_types(DType a, DType b) {
  if (a == b)
    return a;
  if (dtype_category(a) != dtype_category(b))
    return dtype_category(a) > dtype_category(b) ? a : b;
  if (is_floating(a)) {
    auto rank = [](DType t) {
      return t == DType::kFloat64 ? 2 : t == DType::kFloat32 ? 1 : 0;
    };
    if (rank(a) == rank(b))
      return DType::kFloat32; // float16 with bfloat16
    return rank(a) > rank(b) ? a : b;
  }
  // Integers: uint8 fits into every signed type but int8.
  if ((a == DType::kUInt8 && b == DType::kInt8) || (a == DType::kInt8 && b == DType::kUInt8))
    return DType::kInt16;
  auto width = [](DType t) {
    return t == DType::kUInt8 ? 0 : byte_size(t);
  };
  return width(a) > width(b) ? a : b;
}

namespace recorder {
namespace {

// The dtypes of one rank class taken together; none if it is empty.
using MaybeDType = std::optional<DType>;
void merge(MaybeDType &into, DType dtype) {
  into = into ? promote_types(*into, dtype) : dtype;
}

// c10's combine_categories.
MaybeDType combine(MaybeDType higher, MaybeDType lower) {
  if (!higher)
    return lower;
  if (is_floating(*higher))
    return higher;
  if (*higher == DType::kBool || (lower && is_floating(*lower)))
    return lower ? promote_types(*higher, *lower) : *higher;
  return higher;
}

DType default_dtype(const Scalar &scalar) {
  return scalar.dtype == DType::kFloat64 ? DType::kFloat32 : scalar.dtype;
}

} // namespace

DType result_type(std::span<const TensorArg> args) {
  MaybeDType dimensioned, zero_dim, scalars;
  for (const TensorArg &arg : args) {
    if (!arg.tensor())
      merge(scalars, default_dtype(arg.scalar()));
    else {
      const TypeInfo &type = *checked(*arg.tensor(), "an operand")->type;
      merge(type.ndim() > 0 ? dimensioned : zero_dim, call_dtype(type.dtype));
    }
  }
  return *combine(dimensioned, combine(zero_dim, scalars));
}

Var operand(const TensorArg &arg, DType dtype, const char *name) {
  if (!arg.tensor())
    return make_scalar(arg.scalar(), dtype);
  return rounded(read(*arg.tensor(), name), dtype);
}

int64_t least_integer(DType dtype) {
  return dtype == DType::kUInt8
             ? 0
             : std::numeric_limits<int64_t>::min() >> (64 - 8 * byte_size(dtype));
}

int64_t most_integer(DType dtype) {
  return dtype == DType::kUInt8
             ? 255
             : std::numeric_limits<int64_t>::max() >> (64 - 8 * byte_size(dtype));
}

Scalar lowest(DType dtype) {
  return is_floating(dtype) ? Scalar(-std::numeric_limits<double>::infinity())
                            : Scalar(least_integer(dtype));
}
Scalar highest(DType dtype) {
  return is_floating(dtype) ? Scalar(std::numeric_limits<double>::infinity())
                            : Scalar(most_integer(dtype));
}

double largest_finite(DType dtype) {
  switch (dtype) {
  case DType::kFloat16:
    return 65504;
  case DType::kBFloat16:
    return 0x1.fep127;
  case DType::kFloat32:
    return std::numeric_limits<float>::max();
  case DType::kFloat64:
    return std::numeric_limits<double>::max();
  case DType::kBool:
    return 1;
  default:
    return static_cast<double>(most_integer(dtype));
  }
}

namespace {

bool fits(const Scalar &scalar, DType dtype) {
  double value = scalar.as_double();
  if (dtype == DType::kBool)
    return true; // whether it is 0
  if (is_floating(dtype))
    return !std::isfinite(value) || std::fabs(value) <= largest_finite(dtype);
  // Of uint8 a negative number wraps.
  int64_t most = most_integer(dtype), least = dtype == DType::kUInt8 ? -most : least_integer(dtype);
  if (scalar.dtype != DType::kFloat64)
    return scalar.i >= least && scalar.i <= most;
  // The largest int64 has no double; 2^63, to which it rounds, does not fit.
  double end = static_cast<double>(most), begin = static_cast<double>(least);
  return value >= begin && value < (dtype == DType::kInt64 ? end : end + 1);
}

std::string text_of(const Scalar &scalar) {
  std::ostringstream text;
  if (scalar.dtype == DType::kFloat64)
    text << scalar.d;
  else
    text << scalar.i;
  return text.str();
}

} // namespace

void want_fitting(const Scalar &scalar, DType dtype, const char *argument) {
  if (!fits(scalar, dtype))
    fail(ErrorKind::kValue, std::string(argument) + " is " + text_of(scalar) +
                                ", which does not fit into " + name(dtype) +
                                " without overflow; choose a wider dtype");
}

Var make_fitting_scalar(const Scalar &scalar, DType dtype) {
  want_fitting(scalar, dtype);
  return make_scalar(scalar, dtype);
}

Scalar bound_for(const Scalar &scalar, DType dtype, bool from_below, const char *argument) {
  if (!is_integer(dtype) || scalar.dtype == DType::kFloat64)
    return scalar;
  int64_t least = least_integer(dtype), most = most_integer(dtype);
  if (from_below ? scalar.i > most : scalar.i < least)
    fail(ErrorKind::kValue, std::string(argument) + " is " + text_of(scalar) +
                                ", beyond all numbers of " + name(dtype) +
                                ": the result would not fit; convert x to a wider dtype first");
  return std::clamp(scalar.i, least, most);
}

Shape broadcast_shape(const Shape &x, const Shape &y, const char *x_name, const char *y_name) {
  if (x == y)
    return x;
  const Shape &longer = x.size() >= y.size() ? x : y;
  const Shape &shorter = x.size() >= y.size() ? y : x;
  Shape result = longer;
  size_t offset = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t a = longer[offset + i], b = shorter[i];
    if (a != b && a != 1 && b != 1) {
      int64_t dim = static_cast<int64_t>(i) - static_cast<int64_t>(shorter.size());
      auto of_shape = [](std::string_view name, const Shape &shape) {
        bool several = name.ends_with('s') || name.find(" and ") != name.npos;
        return std::string(name) + (several ? " have shape " : " has shape ") + to_string(shape);
      };
      fail(ErrorKind::kShape,
           of_shape(x_name, x) + ", " + of_shape(y_name, y) + ": dimension " + std::to_string(dim) +
               " is " + std::to_string(x[x.size() + dim]) + " in one and " +
               std::to_string(y[y.size() + dim]) +
               " in the other, and neither is 1; reshape or unsqueeze one of them");
    }
    result[offset + i] = a == 1 ? b : a;
  }
  return result;
}

Var broadcast(Var x, const Shape &shape) {
  if (x.dims() == shape)
    return x;
  // It would fill a tensor that lies elsewhere than those that it is for.
  if (call_device.device != x.device() && goes_along(x.type()))
    x = on_device(std::move(x), call_device.device);
  return emit_broadcast(x, shape);
}

Var leading_part(const Var &x, const Shape &shape) {
  if (x.dims().size() != shape.size())
    return x;
  Shape limits = x.dims();
  for (size_t d = 0; d < shape.size(); ++d)
    limits[d] = std::min(limits[d], shape[d]);
  return limits == x.dims()
             ? x
             : emit_slice(x, Shape(shape.size(), 0), limits, Shape(shape.size(), 1));
}

void want_one_dtype(const TypeInfo &x, const char *x_name, const TypeInfo &y, const char *y_name) {
  if (x.dtype != y.dtype)
    fail(ErrorKind::kDType, std::string(x_name) + " is " + describe(x) + ", " + y_name + " is " +
                                describe(y) + ": they must have one dtype; convert with to()");
}

Operands promote(const TensorArg &x, const TensorArg &y, bool floating, uint32_t specialized,
                 bool wide) {
  DType dtype, result;
  if (x.tensor() && y.tensor() && x.tensor()->defined() && y.tensor()->defined() &&
      x.tensor()->impl()->type == y.tensor()->impl()->type)
    dtype = call_dtype(x.tensor()->impl()->type->dtype); // the usual case
  else {
    for (auto [arg, name] : {std::pair(&x, "x"), std::pair(&y, "y")})
      if (arg->tensor())
        note_device(*checked(*arg->tensor(), name)->type);
    const TensorArg args[] = {x, y};
    dtype = result_type(args);
  }
  if (floating && !is_floating(dtype))
    dtype = DType::kFloat32;
  result = dtype;
  auto gives_way = [&](const TensorArg &arg) {
    return !arg.tensor() || (arg.tensor()->impl()->type->ndim() == 0 &&
                             call_dtype(arg.tensor()->impl()->type->dtype) != dtype);
  };
  if (wide && computing_dtype(dtype) != dtype && (gives_way(x) || gives_way(y)))
    dtype = computing_dtype(dtype);
  auto one = [&](int i, const TensorArg &arg, const char *name) {
    bool constant = (specialized >> i & 1) && !arg.tensor();
    return constant ? make_specialized_scalar(arg.scalar(), dtype, i) : operand(arg, dtype, name);
  };
  Var a = one(0, x, "x"), b = one(1, y, "y");
  if (a.value->type == b.value->type)
    return {std::move(a), std::move(b), result};
  // As the caller has them: what is recorded below is of the common shape.
  if (a.device() != b.device() && !goes_along(a.type()) && !goes_along(b.type()))
    refuse_devices("x", a, "y", b);
  Shape shape = broadcast_shape(a.dims(), b.dims(), "x", "y");
  return {broadcast(std::move(a), shape), broadcast(std::move(b), shape), result};
}

namespace {

// What PyTorch computes with two bools: their logic. Null for what it refuses.
EmitBinary on_bools(EmitBinary op) {
  if (op == emit_add || op == emit_maximum || op == emit_or)
    return emit_or;
  return op == emit_mul || op == emit_minimum || op == emit_and ? emit_and : nullptr;
}

DType dtype_of(const TensorArg &arg, const char *argument) {
  return arg.tensor() ? checked(*arg.tensor(), argument)->type->dtype : arg.scalar().dtype;
}

// An operand of the smaller or larger of two: beside integers, a bound stands for a number.
TensorArg fitting(EmitBinary op, const TensorArg &arg, const TensorArg &other,
                  const char *argument) {
  if (arg.tensor())
    return arg;
  const TensorArg args[] = {arg, other};
  return TensorArg(bound_for(arg.scalar(), result_type(args), op == emit_maximum, argument),
                   arg.location());
}

// alpha * y, as an operand of a sum of this dtype.
Var scaled(const Var &y, const Scalar &alpha, DType result) {
  if (!is_floating(result) && alpha.dtype == DType::kFloat64)
    fail(ErrorKind::kDType, "alpha is " + text_of(alpha) + ", the operands are " + name(result) +
                                ": it must be an integer; convert one of them with to(float32)");
  if (result != DType::kBool && alpha.dtype == DType::kBool)
    fail(ErrorKind::kDType,
         std::string("alpha is bool, the operands are ") + name(result) + ": it must be a number");
  want_fitting(alpha, y.dtype(), "alpha");
  EmitBinary times = result == DType::kBool ? emit_and : emit_mul;
  return times(y, broadcast(make_scalar(alpha, y.dtype()), y.dims()));
}

} // namespace

Var arithmetic(EmitBinary op, const char *name, const TensorArg &x, const TensorArg &y,
               bool floating, std::optional<Scalar> alpha) {
  if (op == emit_sub)
    for (const auto &[arg, argument] : {std::pair{&x, "x"}, std::pair{&y, "y"}})
      if (dtype_of(*arg, argument) == DType::kBool)
        fail(ErrorKind::kDType, std::string(argument) +
                                    " is bool, which is not subtracted: use ^, or ~ to invert a "
                                    "mask, or convert it with to() first");
  Operands operands = op == emit_minimum || op == emit_maximum
                          ? promote(fitting(op, x, y, "x"), fitting(op, y, x, "y"), floating,
                                    specialized_operands(op))
                          : promote(x, y, floating, specialized_operands(op), /*wide=*/true);
  DType dtype = operands.x.dtype();
  if (op == emit_pow && is_integer(dtype) && !y.tensor()) {
    if (y.scalar().i < 0)
      fail(ErrorKind::kValue, "integers to the power of " + std::to_string(y.scalar().i) +
                                  " would almost all be 0; convert x with to(float32), or give the "
                                  "exponent as a floating-point number");
    want_fitting(y.scalar(), dtype);
  }
  if (dtype == DType::kBool) {
    op = on_bools(op);
    if (!op)
      fail(ErrorKind::kDType, std::string("both operands are bool, which has no ") + name +
                                  "; convert with to() first");
  }
  if (alpha) {
    operands.x = widened(operands.x);
    operands.y = scaled(widened(operands.y), *alpha, operands.result);
  }
  return rounded(op(operands.x, operands.y), operands.result);
}

DType computing_dtype(DType dtype) {
  return is_floating(dtype) && byte_size(dtype) < 4 ? DType::kFloat32 : dtype;
}

Var widened(const Var &x) {
  DType wide = computing_dtype(x.dtype());
  return wide == x.dtype() ? x : emit_cast(x, wide);
}

Var rounded(Var y, DType dtype) {
  return y.dtype() == dtype ? std::move(y) : emit_cast(y, dtype);
}

Var bias_of(const Tensor &bias, int64_t count, DType dtype) {
  std::optional<CastsDone> as_it_is;
  if (thread_autocast.enabled && computing_dtype(dtype) == DType::kFloat32 &&
      checked(bias, "bias")->type->dtype == DType::kFloat32) {
    as_it_is.emplace();
    dtype = DType::kFloat32;
  }
  Var var = read(bias, "bias");
  if (var.dims() != Shape{count} || var.dtype() != dtype)
    fail(var.dims() != Shape{count} ? ErrorKind::kShape : ErrorKind::kDType,
         "bias is " + describe(var) + "; it must be " + name(dtype) + " [" + std::to_string(count) +
             "]");
  return var;
}

Var floating_only(const Tensor &x, const char *name) {
  Var var = read(x, name);
  if (!is_floating(var.dtype()))
    fail(ErrorKind::kDType, std::string(name) + " is " + describe(var) +
                                "; it must be floating: convert with to(float32)");
  return var;
}

Var index_operand(const Tensor &indices, const char *name) {
  Var var = read(indices, name);
  if (var.dtype() != DType::kInt32 && var.dtype() != DType::kInt64)
    fail(ErrorKind::kDType,
         std::string(name) + " is " + describe(var) + "; indices must be int32 or int64");
  return var;
}

Var beside_ignore_index(Var targets, int64_t ignore_index) {
  DType dtype = targets.dtype();
  bool holds = ignore_index >= least_integer(dtype) && ignore_index <= most_integer(dtype);
  return holds ? std::move(targets) : emit_cast(targets, DType::kInt64);
}

Var floating_operand(const Tensor &x, const char *name) {
  Var var = read(x, name);
  if (!is_floating(var.dtype()))
    var = emit_cast(var, DType::kFloat32);
  return var;
}

} // namespace recorder
} // namespace weft
