// What indices gather in one element becomes one: sums, products, means, the largest and the
// smallest.
#include <limits>
#include <string_view>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/tensor/impl.h"
#include "weft/composites.h"

namespace weft {

using namespace recorder;

namespace {

// The operands of a scatter, in the shapes and dtypes that PyTorch asks for.
struct Scatter {
  Var base, indices, source;
  int64_t axis;
};
Scatter scatter_operands(const Tensor &x, int64_t dim, const Tensor &indices,
                         const Tensor &source) {
  Scatter s{read(x, "x"), index_operand(indices), read(source, "source"), 0};
  s.source = leading_part(s.source, s.indices.dims());
  const Var &var = s.base, &at = s.indices, &from = s.source;
  want_one_dtype(var.type(), "x", from.type(), "source");
  if (var.ndim() != at.ndim() || at.dims() != from.dims())
    fail(ErrorKind::kShape,
         "x has shape " + to_string(var.dims()) + ", indices " + to_string(at.dims()) +
             ", source " + to_string(source.shape()) +
             ": all must have as many dimensions, and source must reach as far as indices");
  s.axis = normalize_dim_or_scalar(dim, var.ndim(), "dim");
  if (var.dtype() == DType::kBool) // as 0 and 1
    for (Var *each : {&s.base, &s.source})
      *each = emit_cast(*each, DType::kUInt8);
  if (var.ndim() == 0) { // vectors of one element
    for (Var *each : {&s.base, &s.indices, &s.source})
      *each = emit_reshape(*each, {1});
    return s;
  }
  for (int64_t i = 0; i < var.ndim(); ++i)
    if (i != s.axis && at.dims()[i] > var.dims()[i])
      fail(ErrorKind::kShape, "indices of shape " + to_string(at.dims()) +
                                  " do not fit into x of shape " + to_string(var.dims()) +
                                  " in dimension " + std::to_string(i));
  return s;
}

Var filled(Scalar value, DType dtype, const Shape &shape) {
  return broadcast(emit_constant(value, dtype), shape);
}

Tensor scatter_reduced(Scatter s, std::string_view reduce, bool include_self) {
  DType dtype = s.base.dtype();
  bool sums = reduce == "sum", means = reduce == "mean", multiplies = reduce == "prod",
       largest = reduce == "amax";
  if (!sums && !means && !multiplies && !largest && reduce != "amin")
    fail(ErrorKind::kValue, "reduce is \"" + std::string(reduce) +
                                "\"; it must be \"sum\", \"prod\", \"mean\", \"amax\" or \"amin\"");
  // How many elements meet in each; of float32, exact up to 2^24 and in the lanes of most elements,
  // where only none or some matters.
  auto counted = [&](DType counting, double start) {
    return emit_scatter_add(filled(start, counting, s.base.dims()), s.indices,
                            filled(1.0, counting, s.indices.dims()), s.axis);
  };
  if (means) {
    s.base = widened(s.base);
    s.source = widened(s.source);
  }
  if (!include_self) {
    Var touched = emit_compare(Comparison::kGt, counted(DType::kFloat32, 0),
                               filled(0.0, DType::kFloat32, s.base.dims()));
    Scalar neutral = sums || means ? Scalar(0.0)
                     : multiplies  ? Scalar(1.0)
                     : largest     ? lowest(dtype)
                                   : highest(dtype);
    s.base = emit_select(touched, filled(neutral, s.base.dtype(), s.base.dims()), s.base);
  }
  if (!sums && !means)
    return wrap(emit_scatter_reduce(multiplies ? Combiner::kProd
                                    : largest  ? Combiner::kMax
                                               : Combiner::kMin,
                                    s.base, s.indices, s.source, s.axis));
  Var total = emit_scatter_add(s.base, s.indices, s.source, s.axis);
  if (sums)
    return wrap(total);
  DType counting = is_floating(dtype) ? total.dtype() : DType::kInt64;
  Var count = counted(counting, include_self ? 1 : 0);
  if (!include_self)
    count = emit_maximum(count, filled(1.0, counting, s.base.dims()));
  if (is_floating(dtype))
    return wrap(rounded(emit_div(total, count), dtype));
  return floor_divide(wrap(total), wrap(count)).to(dtype);
}

// In x's shape and dtype.
Tensor scattered(const Tensor &x, int64_t dim, const Tensor &indices, const Tensor &source,
                 std::string_view reduce, bool include_self) {
  Scatter s = scatter_operands(x, dim, indices, source);
  bool bools = x.dtype() == DType::kBool;
  if (bools && reduce == "mean")
    fail(ErrorKind::kDType,
         "x and source are bool, which have no mean; convert them with to() first");
  // The sum of bools is whether one of them is true, as PyTorch's.
  Tensor result =
      scatter_reduced(std::move(s), bools && reduce == "sum" ? "amax" : reduce, include_self);
  if (bools)
    result = result != 0;
  return x.ndim() == 0 ? result.reshape({}) : result;
}

} // namespace

Tensor scatter_add(const Tensor &x, int64_t dim, const Tensor &indices, const Tensor &source,
                   Location location) {
  Session session("scatter_add", location);
  return scattered(x, dim, indices, source, "sum", /*include_self=*/true);
}

Tensor scatter_reduce(const Tensor &x, int64_t dim, const Tensor &indices, const Tensor &source,
                      std::string_view reduce, bool include_self, Location location) {
  Session session("scatter_reduce", location);
  return scattered(x, dim, indices, source, reduce, include_self);
}

Tensor index_reduce(const Tensor &x, int64_t dim, const Tensor &indices, const Tensor &source,
                    std::string_view reduce, bool include_self, Location location) {
  Session session("index_reduce", location);
  const TypeInfo &type = *checked(x, "x")->type, &at = *checked(indices, "indices")->type,
                 &from = *checked(source, "source")->type;
  if (type.ndim() == 0 || at.ndim() != 1)
    fail(ErrorKind::kShape, "x has shape " + to_string(type.dims) + ", indices have shape " +
                                to_string(at.dims) + ": x must have dimensions, and indices one");
  int64_t axis = normalize_dim(dim, type.ndim(), "dim");
  Shape expected = type.dims, one(static_cast<size_t>(type.ndim()), 1);
  expected[axis] = one[axis] = at.dims[0];
  if (from.dims != expected)
    fail(ErrorKind::kShape, "source has shape " + to_string(from.dims) + "; with x of shape " +
                                to_string(type.dims) + " and " + std::to_string(at.dims[0]) +
                                " indices along dimension " + std::to_string(axis) +
                                " it must be " + to_string(expected));
  return scattered(x, axis, indices.reshape(one).expand(expected), source, reduce, include_self);
}

} // namespace weft
