// matmul, indexing by tensors, and the composites that the dialect keeps whole.
#include <algorithm>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/tensor/impl.h"
#include "weft/ops.h"

namespace weft {

using namespace recorder;

Tensor matmul(const Tensor &x, const Tensor &y, Location location) {
  Session session("matmul", location);
  Var a = read(x, "x"), b = read(y, "y");
  want_one_dtype(a.type(), "x", b.type(), "y");
  if (a.dtype() == DType::kBool)
    fail(ErrorKind::kDType, "both operands are bool; convert them with to() first");
  bool row = a.ndim() == 1, column = b.ndim() == 1;
  if (a.ndim() == 0 || b.ndim() == 0)
    fail(ErrorKind::kShape,
         "x is " + describe(a) + ", y is " + describe(b) +
             ": both need at least one dimension; use * for a product with a scalar");
  int64_t k = a.dims().back(), other = b.dims()[column ? 0 : b.ndim() - 2];
  if (k != other)
    fail(ErrorKind::kShape,
         "x has shape " + to_string(a.dims()) + ", y has shape " + to_string(b.dims()) +
             ": the last dimension of x, " + std::to_string(k) + ", must equal the " +
             (column ? "dimension" : "last but one dimension") + " of y, " + std::to_string(other));
  for (int64_t i = 3; i <= std::min(a.ndim(), b.ndim()); ++i)
    if (int64_t m = a.dims()[a.ndim() - i], n = b.dims()[b.ndim() - i];
        m != n && m != 1 && n != 1)
      fail(ErrorKind::kShape, "x has shape " + to_string(a.dims()) + ", y has shape " +
                                  to_string(b.dims()) +
                                  ": aligned at the end, each of their leading dimensions must be "
                                  "equal or 1");
  if (row)
    a = emit_reshape(a, {1, k});
  if (column)
    b = emit_reshape(b, {k, 1});
  Var result = emit_matmul(a, b);
  if (row || column) {
    Shape dims = result.dims();
    if (column)
      dims.pop_back();
    if (row)
      dims.erase(dims.end() - (column ? 1 : 2));
    result = emit_reshape(result, dims);
  }
  return wrap(result);
}

Tensor linear(const Tensor &x, const Tensor &weight, const Tensor &bias, Location location) {
  Session session("linear", location);
  Var input = read(x, "x"), w = read(weight, "weight");
  if (w.ndim() != 1 && w.ndim() != 2)
    fail(ErrorKind::kShape,
         "weight has shape " + to_string(w.dims()) + "; it must be [out, in], or [in]");
  if (w.ndim() == 1) // of one feature, which the result has no dimension of
    return linear(x, weight.unsqueeze(0), bias).squeeze(-1);
  if (input.ndim() == 0 || input.dims().back() != w.dims()[1])
    fail(ErrorKind::kShape, "x has shape " + to_string(input.dims()) + ", weight has shape " +
                                to_string(w.dims()) + ": the last dimension of x must be " +
                                std::to_string(w.dims()[1]));
  want_one_dtype(input.type(), "x", w.type(), "weight");
  if (w.dtype() == DType::kBool)
    fail(ErrorKind::kDType, "x and weight are bool; convert them with to() first");
  // One matrix product whatever the leading dimensions: its rows are x's.
  Shape dims = input.dims();
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < dims.size(); ++i)
    rows *= dims[i];
  Var flat = input.ndim() == 2 ? input : emit_reshape(input, {rows, w.dims()[1]});
  Var y;
  if (bias.defined()) {
    // Of one number it is the same for all features.
    bool one = bias.ndim() < 2 && bias.size() == 1;
    Var b = one ? bias_of(bias.reshape({1}), 1, w.dtype()) : bias_of(bias, w.dims()[0], w.dtype());
    y = emit_matmul(widened(flat), widened(w), false, true);
    y = rounded(emit_add(y, emit_broadcast(widened(b), y.dims())), w.dtype());
  } else {
    y = emit_matmul(flat, w, false, true);
  }
  dims.back() = w.dims()[0];
  return wrap(input.ndim() == 2 ? y : emit_reshape(y, dims));
}

//===-- Indexing by tensors -------------------------------------------------------------------===//

Tensor index_select(const Tensor &x, int64_t dim, const Tensor &indices, Location location) {
  Session session("index_select", location);
  Var var = read(x, "x"), at = index_operand(indices);
  int64_t axis = normalize_dim_or_scalar(dim, var.ndim(), "dim");
  return wrap(emit_index_select(var.ndim() == 0 ? emit_reshape(var, {1}) : var, at, axis));
}

Tensor embedding(const Tensor &indices, const Tensor &weight, Location location) {
  Session session("embedding", location);
  Var table = read(weight, "weight"), at = index_operand(indices);
  if (table.ndim() != 2)
    fail(ErrorKind::kShape,
         "weight has shape " + to_string(table.dims()) + "; it must be [rows, features]");
  return wrap(emit_index_select(table, at, 0));
}

Tensor gather(const Tensor &x, int64_t dim, const Tensor &indices, Location location) {
  Session session("gather", location);
  Var var = read(x, "x"), at = index_operand(indices);
  if (var.ndim() != at.ndim())
    fail(ErrorKind::kShape, "x has shape " + to_string(var.dims()) + ", indices have shape " +
                                to_string(at.dims()) + ": both must have as many dimensions");
  int64_t axis = normalize_dim_or_scalar(dim, var.ndim(), "dim");
  if (var.ndim() == 0)
    return wrap(emit_reshape(emit_gather(emit_reshape(var, {1}), emit_reshape(at, {1}), 0), {}));
  return wrap(emit_gather(var, at, axis));
}

Tensor one_hot(const Tensor &indices, int64_t classes, Location location) {
  Session session("one_hot", location);
  Var at = index_operand(indices);
  if (classes < 1)
    fail(ErrorKind::kValue, "classes is " + std::to_string(classes) + "; it must be positive");
  Shape dims = at.dims(), raised = at.dims();
  at = emit_check_index(at, classes, "weft.one_hot");
  dims.push_back(classes);
  raised.push_back(1);
  Var column = emit_iota(at.dtype(), dims, static_cast<int64_t>(dims.size()) - 1);
  return wrap(emit_cast(
      emit_compare(Comparison::kEq, column, emit_broadcast(emit_reshape(at, raised), dims)),
      DType::kInt64));
}

//===-- Composites ----------------------------------------------------------------------------===//

Tensor softmax(const Tensor &x, int64_t dim, Location location) {
  Session session("softmax", location);
  Var var = floating_only(x);
  int64_t axis = normalize_dim_or_scalar(dim, var.ndim(), "dim");
  if (var.ndim() == 0)
    return wrap(emit_reshape(emit_softmax(emit_reshape(var, {1}), 0), {}));
  return wrap(emit_softmax(var, axis));
}

Tensor log_softmax(const Tensor &x, int64_t dim, Location location) {
  Session session("log_softmax", location);
  Var var = floating_only(x);
  int64_t axis = normalize_dim_or_scalar(dim, var.ndim(), "dim");
  if (var.ndim() == 0)
    return wrap(emit_reshape(emit_log_softmax(emit_reshape(var, {1}), 0), {}));
  return wrap(emit_log_softmax(var, axis));
}

Tensor layer_norm(const Tensor &x, const Shape &normalized_shape, const Tensor &weight,
                  const Tensor &bias, double eps, Location location) {
  Session session("layer_norm", location);
  Var var = floating_only(x);
  size_t rank = normalized_shape.size();
  if (rank == 0 || rank > var.dims().size() ||
      !std::equal(normalized_shape.begin(), normalized_shape.end(),
                  var.dims().end() - static_cast<std::ptrdiff_t>(rank)))
    fail(ErrorKind::kShape, "x has shape " + to_string(var.dims()) +
                                ", which does not end with normalized_shape " +
                                to_string(normalized_shape));
  Var w, b;
  auto parameter = [&](const Tensor &tensor, const char *argument) {
    Var p = read(tensor, argument);
    if (p.dims() != normalized_shape || p.dtype() != var.dtype())
      fail(p.dims() != normalized_shape ? ErrorKind::kShape : ErrorKind::kDType,
           std::string(argument) + " is " + describe(p) + "; it must be " + name(var.dtype()) +
               " " + to_string(normalized_shape));
    return p;
  };
  if (weight.defined())
    w = parameter(weight, "weight");
  if (bias.defined())
    b = parameter(bias, "bias");
  return wrap(emit_layer_norm(var, w, b, static_cast<int64_t>(rank), eps)[0]);
}

} // namespace weft
