// Members of Tensor that are functions with this tensor first, and those that write in place what
// such a function gives. Arithmetic in place stands in tensor.cpp.
#include "frontend/recorder/requests/requests.h"
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
  const Tensor value = [&] {
    Uncut uncut;
    return function();
  }();
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

// The tensor of a member as its function's first operand, a tensor or one that may be a number.
struct Self {
  operator const Tensor &() const {
    return tensor;
  }
  operator TensorArg() const {
    return TensorArg(tensor, location);
  }
  const Tensor &tensor;
  Location location;
};

} // namespace

#define WEFT_UNARY(function, record, operands, doc)                                                \
  Tensor Tensor::function(Location location) const {                                               \
    return weft::function(*this, location);                                                        \
  }                                                                                                \
  Tensor &Tensor::function##_(Location location) {                                                 \
    return replace(*this, #function "_", location, [&] { return function(location); });            \
  }
#define WEFT_BINARY(function, record, operands, doc)                                               \
  Tensor Tensor::function(TensorArg other, Location location) const {                              \
    return weft::function(TensorArg(*this, location), other, location);                            \
  }
#include "weft/ops/elementwise.inc"
#undef WEFT_UNARY
#undef WEFT_BINARY

#include "frontend/tensor/members.inc"

Tensor Tensor::broadcast_to(const Shape &shape, Location location) const {
  return weft::broadcast_to(*this, shape, location);
}
Tensor Tensor::to(DType dtype, Location location) const {
  return cast(*this, dtype, location);
}

} // namespace weft
