// Products of tensors that are made of matmul and of elementwise ones.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "frontend/ops/promotion.h"
#include "frontend/tensor/autocast.h"
#include "frontend/tensor/impl.h"
#include "weft/composites.h"

namespace weft {

using namespace recorder;

namespace {

// Fails unless the operands of a product, of which nothing broadcasts, have these shapes: letters
// for sizes, of which equal ones are equal.
void want_shapes(const TypeInfo &x, const char *x_name, std::string_view left, const TypeInfo &y,
                 const char *y_name, std::string_view right) {
  bool fits = x.ndim() == std::ssize(left) && y.ndim() == std::ssize(right);
  for (size_t i = 0; fits && i < left.size(); ++i)
    if (size_t j = right.find(left[i]); j != right.npos)
      fits = x.dims[i] == y.dims[j];
  auto form = [](std::string_view letters) {
    std::string text = "[";
    for (char letter : letters)
      text += std::string(text.size() > 1 ? ", " : "") + letter;
    return text + "]";
  };
  if (!fits)
    fail(ErrorKind::kShape, std::string(x_name) + " has shape " + to_string(x.dims) + ", " +
                                y_name + " has shape " + to_string(y.dims) + ": they must be " +
                                form(left) + " and " + form(right));
}

Tensor product(const Tensor &x, std::string_view left, const Tensor &y, std::string_view right) {
  want_shapes(*checked(x, "x")->type, "x", left, *checked(y, "y")->type, "y", right);
  return matmul(x, y);
}

// A factor of tensors of this dtype: of integers a whole number, which would else lose its
// fraction.
Scalar factor_for(DType dtype, const Scalar &factor, const char *argument) {
  if (is_floating(dtype) || factor.dtype != DType::kFloat64)
    return factor;
  if (factor.d != std::trunc(factor.d))
    fail(ErrorKind::kDType, std::string(argument) + " is " + std::to_string(factor.d) +
                                ", the operands are " + name(dtype) +
                                ": it must be an integer; convert one of them with to(float32)");
  want_fitting(factor, dtype, argument);
  return static_cast<int64_t>(factor.d);
}

// beta x + alpha (a b), whose operands have these shapes: a's ends in "k", and b's has it and
// perhaps columns after it.
Tensor added_product(const Tensor &x, const Tensor &a, std::string_view a_shape, const Tensor &b,
                     std::string_view b_shape, const Scalar &beta, const Scalar &alpha) {
  checked(x, "x");
  const TypeInfo &left = *checked(a, "a")->type, &right = *checked(b, "b")->type;
  want_shapes(left, "a", a_shape, right, "b", b_shape);
  Shape shape(left.dims.begin(), left.dims.end() - 1);
  if (b_shape.back() != 'k')
    shape.push_back(right.dims.back());
  if (broadcast_shape(x.shape(), shape, "x", "the product") != shape)
    fail(ErrorKind::kShape, "x has shape " + to_string(x.shape()) +
                                ", which does not broadcast to the product's " + to_string(shape));
  const TensorArg args[] = {x, a, b};
  DType dtype = result_type(args), wide = computing_dtype(dtype);
  CastsDone casts_done; // the sum is rounded once
  // A factor of 0 leaves out what it stands before, NaN and infinities too; the derivative is 0.
  auto times = [](const Tensor &tensor, const Scalar &factor) {
    return factor.as_double() == 1.0   ? tensor
           : factor.as_double() == 0.0 ? where(scalar(true), 0, tensor)
                                       : tensor * factor;
  };
  Tensor product = matmul(a.to(dtype).to(wide), b.to(dtype).to(wide));
  return (times(x.to(wide), factor_for(dtype, beta, "beta")) +
          times(product, factor_for(dtype, alpha, "alpha")))
      .to(dtype);
}

} // namespace

Tensor mm(const Tensor &x, const Tensor &y, Location location) {
  Session session("mm", location);
  return product(x, "nk", y, "km");
}

Tensor bmm(const Tensor &x, const Tensor &y, Location location) {
  Session session("bmm", location);
  return product(x, "bnk", y, "bkm");
}

Tensor mv(const Tensor &x, const Tensor &y, Location location) {
  Session session("mv", location);
  return product(x, "nk", y, "k");
}

Tensor addmm(const Tensor &x, const Tensor &a, const Tensor &b, Scalar beta, Scalar alpha,
             Location location) {
  Session session("addmm", location);
  return added_product(x, a, "nk", b, "km", beta, alpha);
}

Tensor addmv(const Tensor &x, const Tensor &a, const Tensor &b, Scalar beta, Scalar alpha,
             Location location) {
  Session session("addmv", location);
  return added_product(x, a, "nk", b, "k", beta, alpha);
}

Tensor baddbmm(const Tensor &x, const Tensor &a, const Tensor &b, Scalar beta, Scalar alpha,
               Location location) {
  Session session("baddbmm", location);
  return added_product(x, a, "bnk", b, "bkm", beta, alpha);
}

Tensor cross(const Tensor &x, const Tensor &y, int64_t dim, Location location) {
  Session session("cross", location);
  Shape shape = broadcast_shape(checked(x, "x")->type->dims, checked(y, "y")->type->dims, "x", "y");
  int64_t axis = normalize_dim(dim, static_cast<int64_t>(shape.size()), "dim");
  if (shape.empty() || shape[static_cast<size_t>(axis)] != 3)
    fail(ErrorKind::kShape, "x has shape " + to_string(x.shape()) + ", y has shape " +
                                to_string(y.shape()) + ": dimension " + std::to_string(axis) +
                                " must be of size 3");
  Tensor a = x.expand(shape), b = y.expand(shape);
  return roll(a, -1, axis) * roll(b, 1, axis) - roll(a, 1, axis) * roll(b, -1, axis);
}

Tensor kron(const Tensor &x, const Tensor &y, Location location) {
  Session session("kron", location);
  Shape left = checked(x, "x")->type->dims, right = checked(y, "y")->type->dims;
  size_t rank = std::max(left.size(), right.size());
  left.insert(left.begin(), rank - left.size(), 1);
  right.insert(right.begin(), rank - right.size(), 1);
  Shape raised_left, raised_right, shape;
  for (size_t d = 0; d < rank; ++d) {
    raised_left.insert(raised_left.end(), {left[d], 1});
    raised_right.insert(raised_right.end(), {1, right[d]});
    shape.push_back(left[d] * right[d]);
  }
  return (x.reshape(raised_left) * y.reshape(raised_right)).reshape(shape);
}

namespace {

int64_t product_of(const Shape &shape, const Shape &dims) {
  int64_t n = 1;
  for (int64_t d : dims)
    n *= shape[static_cast<size_t>(d)];
  return n;
}

} // namespace

Tensor tensordot(const Tensor &x, const Tensor &y, const Shape &x_dims, const Shape &y_dims,
                 Location location) {
  Session session("tensordot", location);
  const Shape &left = checked(x, "x")->type->dims, &right = checked(y, "y")->type->dims;
  if (x_dims.size() != y_dims.size())
    fail(ErrorKind::kValue, "x_dims " + to_string(x_dims) + " and y_dims " + to_string(y_dims) +
                                " must be equally many");
  Shape of_x, of_y, kept_x, kept_y;
  for (size_t i = 0; i < x_dims.size(); ++i) {
    of_x.push_back(normalize_dim(x_dims[i], static_cast<int64_t>(left.size()), "x_dims"));
    of_y.push_back(normalize_dim(y_dims[i], static_cast<int64_t>(right.size()), "y_dims"));
    if (std::count(of_x.begin(), of_x.end(), of_x.back()) > 1 ||
        std::count(of_y.begin(), of_y.end(), of_y.back()) > 1)
      fail(ErrorKind::kValue, "x_dims " + to_string(x_dims) + " or y_dims " + to_string(y_dims) +
                                  " name a dimension twice");
    if (left[of_x[i]] != right[of_y[i]])
      fail(ErrorKind::kShape, "x has shape " + to_string(left) + ", y has shape " +
                                  to_string(right) + ": dimensions " + std::to_string(of_x[i]) +
                                  " and " + std::to_string(of_y[i]) + " must be of one size");
  }
  Shape shape;
  for (size_t d = 0; d < left.size(); ++d)
    if (std::find(of_x.begin(), of_x.end(), static_cast<int64_t>(d)) == of_x.end()) {
      kept_x.push_back(static_cast<int64_t>(d));
      shape.push_back(left[d]);
    }
  for (size_t d = 0; d < right.size(); ++d)
    if (std::find(of_y.begin(), of_y.end(), static_cast<int64_t>(d)) == of_y.end()) {
      kept_y.push_back(static_cast<int64_t>(d));
      shape.push_back(right[d]);
    }
  int64_t rows = product_of(left, kept_x), columns = product_of(right, kept_y),
          inner = product_of(left, of_x);
  Shape order_x = kept_x, order_y = of_y;
  order_x.insert(order_x.end(), of_x.begin(), of_x.end());
  order_y.insert(order_y.end(), kept_y.begin(), kept_y.end());
  return matmul(x.permute(order_x).reshape({rows, inner}),
                y.permute(order_y).reshape({inner, columns}))
      .reshape(shape);
}

Tensor tensordot(const Tensor &x, const Tensor &y, int64_t dims, Location location) {
  Session session("tensordot", location);
  int64_t left = checked(x, "x")->type->ndim(), right = checked(y, "y")->type->ndim();
  if (dims < 0 || dims > left || dims > right)
    fail(ErrorKind::kValue, "dims is " + std::to_string(dims) + "; x has shape " +
                                to_string(x.shape()) + ", y has shape " + to_string(y.shape()) +
                                ": both must have as many dimensions");
  Shape of_x(static_cast<size_t>(dims)), of_y(static_cast<size_t>(dims));
  std::iota(of_x.begin(), of_x.end(), left - dims);
  std::iota(of_y.begin(), of_y.end(), 0);
  return tensordot(x, y, of_x, of_y, location);
}

} // namespace weft
