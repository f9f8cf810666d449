// Members that write what a function of their own tensor gives. Arithmetic in place stands in
// tensor.cpp.
#include "frontend/tensor/impl.h"
#include "weft/composites.h"

namespace weft {

using namespace recorder;

namespace {

// self = function(), in self's dtype and shape. Called inside the member's session, so that the
// function's errors have the member's name.
template <typename Function>
Tensor &replace(Tensor &self, const char *name, Location location, Function function) {
  Session session(name, location);
  TensorImpl *impl = checked(self, "self");
  const Tensor value = function();
  if (value.shape() != impl->type->dims)
    fail(ErrorKind::kShape, "self is " + describe(*impl->type) + ", but the result has shape " +
                                to_string(value.shape()) + ", which does not fit into it");
  if (dtype_category(value.dtype()) > dtype_category(impl->type->dtype))
    fail(ErrorKind::kDType, std::string("the result is ") + weft::name(value.dtype()) +
                                ", which cannot be written into self, a tensor of " +
                                weft::name(impl->type->dtype) +
                                "; convert with to(), or do it out of place");
  return self.copy_(value, location);
}

} // namespace

#define WEFT_UNARY(function, record, operands, doc)                                                \
  Tensor &Tensor::function##_(Location location) {                                                 \
    return replace(*this, #function "_", location,                                                 \
                   [&] { return weft::function(*this, location); });                               \
  }
#define WEFT_BINARY(function, record, operands, doc)
#include "weft/ops/elementwise.inc"
#undef WEFT_UNARY
#undef WEFT_BINARY

Tensor &Tensor::pow_(TensorArg exponent, Location location) {
  return replace(*this, "pow_", location, [&] { return pow(exponent, location); });
}
Tensor &Tensor::clamp_(std::optional<Scalar> min, std::optional<Scalar> max, Location location) {
  return replace(*this, "clamp_", location, [&] { return clamp(min, max, location); });
}
Tensor &Tensor::clamp_(const Tensor &min, const Tensor &max, Location location) {
  return replace(*this, "clamp_", location, [&] { return clamp(min, max, location); });
}
Tensor &Tensor::lerp_(const Tensor &other, TensorArg weight, Location location) {
  return replace(*this, "lerp_", location, [&] { return lerp(other, weight, location); });
}
Tensor &Tensor::addcmul_(const Tensor &a, const Tensor &b, Scalar value, Location location) {
  return replace(*this, "addcmul_", location, [&] { return addcmul(a, b, value, location); });
}
Tensor &Tensor::addcdiv_(const Tensor &a, const Tensor &b, Scalar value, Location location) {
  return replace(*this, "addcdiv_", location, [&] { return addcdiv(a, b, value, location); });
}
Tensor &Tensor::masked_fill_(const Tensor &mask, TensorArg value, Location location) {
  return replace(*this, "masked_fill_", location,
                 [&] { return masked_fill(mask, value, location); });
}
Tensor &Tensor::scatter_(int64_t dim, const Tensor &indices, TensorArg source, Location location) {
  return replace(*this, "scatter_", location,
                 [&] { return scatter(dim, indices, source, location); });
}
Tensor &Tensor::scatter_add_(int64_t dim, const Tensor &indices, const Tensor &source,
                             Location location) {
  return replace(*this, "scatter_add_", location,
                 [&] { return scatter_add(dim, indices, source, location); });
}
Tensor &Tensor::scatter_reduce_(int64_t dim, const Tensor &indices, const Tensor &source,
                                std::string_view reduce, bool include_self, Location location) {
  return replace(*this, "scatter_reduce_", location,
                 [&] {
                   return scatter_reduce(dim, indices, source, reduce, include_self, location);
                 });
}
Tensor &Tensor::index_add_(int64_t dim, const Tensor &indices, const Tensor &source,
                           Location location) {
  return replace(*this, "index_add_", location,
                 [&] { return index_add(dim, indices, source, location); });
}
Tensor &Tensor::index_copy_(int64_t dim, const Tensor &indices, const Tensor &source,
                            Location location) {
  return replace(*this, "index_copy_", location,
                 [&] { return index_copy(dim, indices, source, location); });
}
Tensor &Tensor::index_fill_(int64_t dim, const Tensor &indices, Scalar value, Location location) {
  return replace(*this, "index_fill_", location,
                 [&] { return index_fill(dim, indices, value, location); });
}

} // namespace weft
