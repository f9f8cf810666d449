// New tensors.
#include <cmath>
#include <cstring>
#include <sstream>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/recorder/requests/requests.h"
#include "frontend/tensor/beside.h"
#include "frontend/tensor/constant.h"
#include "frontend/tensor/impl.h"
#include "runtime/memory/buffer.h"

namespace weft {

using namespace recorder;

Tensor Tensor::from_bytes(const void *bytes, DType dtype, Shape shape, Location location) {
  Session session("from", location);
  const TypeInfo *type = type_info(dtype, shape);
  return wrap_quietly(make_leaf(type, buffer_of_new(bytes, type->bytes, type->device)));
}

Tensor from_blob(const void *data, const Shape &shape, std::function<void(void *)> deleter,
                 DType dtype, Location location) {
  Session session("from_blob", location);
  if (Trace *trace = active_trace())
    fail(ErrorKind::kState, std::string("inside a function of weft::") + trace->what +
                                " each later call would read the first one's memory; make the "
                                "tensor outside, and give it to the function as an argument");
  const TypeInfo *type =
      type_info(dtype, shape, host_reads(call_device.device) ? call_device.device : 0);
  if (!data && type->bytes > 0)
    fail(ErrorKind::kValue,
         "data is null, and " + describe(*type) + " has " + std::to_string(type->bytes) + " bytes");
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(byte_size(dtype)) != 0)
    fail(ErrorKind::kValue, std::string("data is not aligned to the ") +
                                std::to_string(byte_size(dtype)) + " bytes of an element of " +
                                name(dtype) + "; Tensor::from_bytes copies from any place");
  void *memory = const_cast<void *>(data); // which only the deleter gets
  std::shared_ptr<const void> owner;
  if (deleter)
    owner = std::shared_ptr<void>(memory, std::move(deleter));
  Var leaf = make_leaf(type, runtime::Buffer::borrow(memory, type->bytes, std::move(owner)),
                       /*borrowed=*/true);
  leaf.value->cell->lent = true;
  return Tensor(new TensorImpl(std::move(leaf)));
}

Tensor from_blob(const void *data, const Shape &shape, DType dtype, Location location) {
  return from_blob(data, shape, {}, dtype, location);
}

namespace recorder {

Tensor constant_tensor(const void *data, DType dtype, Shape shape,
                       std::shared_ptr<const void> owner, Location location) {
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(byte_size(dtype)) != 0)
    return Tensor::from_bytes(data, dtype, std::move(shape), location);
  Session session("from", location);
  const TypeInfo *type = type_info(dtype, shape);
  if (!host_reads(type->device))
    return Tensor::from_bytes(data, dtype, std::move(shape), location);
  return wrap_quietly(
      make_leaf(type, runtime::Buffer::borrow_constant(data, type->bytes, std::move(owner))));
}

Tensor copy_of(const Tensor &source, Location location) {
  location = CallerScope::resolve(location);
  const void *data = source.data_bytes(location);
  Session session("copy", location);
  TensorImpl *impl = checked(source, "source");
  Cell *cell = impl->is_view() ? nullptr : impl->var.value->cell;
  BesideTensor beside(source);
  if (cell && cell->buffer->is_constant())
    return wrap_quietly(make_leaf(
        impl->type, runtime::Buffer::borrow_constant(data, impl->type->bytes, cell->buffer)));
  return Tensor::from_bytes(data, source.dtype(), source.shape(), location);
}

} // namespace recorder

namespace {

void check_count(size_t count, const Shape &shape, DType dtype, Location location) {
  Session session("from", location);
  int64_t elements = type_info(dtype, shape)->elements;
  if (static_cast<int64_t>(count) != elements)
    fail(ErrorKind::kShape, std::to_string(count) + " values do not fill shape " +
                                to_string(shape) + ", which has " + std::to_string(elements) +
                                " elements");
}

} // namespace

template <ElementType T>
Tensor Tensor::from(std::span<const T> values, Shape shape, Location location) {
  check_count(values.size(), shape, dtype_of<T>(), location);
  return from_bytes(values.data(), dtype_of<T>(), std::move(shape), location);
}

template <ElementType T>
Tensor Tensor::from(const std::vector<T> &values, Shape shape, Location location) {
  if constexpr (std::is_same_v<T, bool>) {
    std::vector<uint8_t> bytes(values.begin(), values.end());
    check_count(values.size(), shape, DType::kBool, location);
    return from_bytes(bytes.data(), DType::kBool, std::move(shape), location);
  } else {
    return from<T>(std::span<const T>(values), std::move(shape), location);
  }
}

template <ElementType T> Tensor Tensor::from(const std::vector<T> &values, Caller caller) {
  return from<T>(values, Shape{static_cast<int64_t>(values.size())}, caller.location);
}

#define WEFT_INSTANTIATE(T, dtype)                                                                 \
  template Tensor Tensor::from<T>(std::span<const T>, Shape, Location);                            \
  template Tensor Tensor::from<T>(const std::vector<T> &, Shape, Location);                        \
  template Tensor Tensor::from<T>(const std::vector<T> &, Caller);
WEFT_ELEMENT_TYPES(WEFT_INSTANTIATE)
#undef WEFT_INSTANTIATE

Tensor full(const Shape &shape, Scalar value, std::optional<DType> dtype, Location location) {
  Session session("full", location);
  DType chosen = dtype.value_or(value.dtype == DType::kFloat64 ? DType::kFloat32 : value.dtype);
  return wrap(broadcast(make_fitting_scalar(value, chosen), shape));
}

// 0 and 1 are part of the program: they never change, and folding knows them.
Tensor zeros(const Shape &shape, DType dtype, Location location) {
  Session session("zeros", location);
  return wrap(broadcast(emit_constant(0, dtype), shape));
}
Tensor ones(const Shape &shape, DType dtype, Location location) {
  Session session("ones", location);
  return wrap(broadcast(emit_constant(1, dtype), shape));
}

Tensor scalar(Scalar value, std::optional<DType> dtype, Location location) {
  Session session("scalar", location);
  return full({}, value, dtype, location);
}
Tensor tensor(Scalar value, std::optional<DType> dtype, Location location) {
  Session session("tensor", location);
  return full({}, value, dtype, location);
}
Tensor recorder::cut_as(const Tensor &made, const Tensor &x) {
  const TypeInfo *type = x.impl()->type;
  return type->part ? wrap(resharded(read(made, "x"), type)) : made;
}
// On x's device, and cut as x is.
template <typename Make> static Tensor beside(const Tensor &x, Make make) {
  BesideTensor scope(x);
  return cut_as(make(), x);
}
Tensor zeros_like(const Tensor &x, Location location) {
  Session session("zeros_like", location);
  return beside(x, [&] { return zeros(x.shape(), x.dtype(), location); });
}
Tensor ones_like(const Tensor &x, Location location) {
  Session session("ones_like", location);
  return beside(x, [&] { return ones(x.shape(), x.dtype(), location); });
}
Tensor full_like(const Tensor &x, Scalar value, Location location) {
  Session session("full_like", location);
  return beside(x, [&] { return full(x.shape(), value, x.dtype(), location); });
}
Tensor Tensor::new_zeros(const Shape &shape, std::optional<DType> dtype, Location location) const {
  Session session("new_zeros", location);
  BesideTensor scope(*this);
  return zeros(shape, dtype.value_or(impl_->type->dtype));
}
Tensor Tensor::new_ones(const Shape &shape, std::optional<DType> dtype, Location location) const {
  Session session("new_ones", location);
  BesideTensor scope(*this);
  return ones(shape, dtype.value_or(impl_->type->dtype));
}
Tensor Tensor::new_full(const Shape &shape, Scalar value, std::optional<DType> dtype,
                        Location location) const {
  Session session("new_full", location);
  BesideTensor scope(*this);
  return full(shape, value, dtype.value_or(impl_->type->dtype));
}

Tensor arange(Scalar start, Scalar stop, Scalar step, std::optional<DType> dtype,
              Location location) {
  Session session("arange", location);
  bool floating = start.dtype == DType::kFloat64 || stop.dtype == DType::kFloat64 ||
                  step.dtype == DType::kFloat64;
  DType chosen = dtype.value_or(floating ? DType::kFloat32 : DType::kInt64);
  if (chosen == DType::kBool)
    fail(ErrorKind::kDType, "the dtype must be a number's, not bool");
  double span = (stop.as_double() - start.as_double()) / step.as_double();
  if (step.as_double() == 0 || !std::isfinite(span))
    fail(ErrorKind::kValue, "start, stop and step must be finite, and step must not be 0");
  if (floating ? span < 0 : step.i > 0 ? start.i > stop.i : start.i < stop.i) {
    auto text = [](const Scalar &x) {
      std::ostringstream stream;
      x.dtype == DType::kFloat64 ? stream << x.d : stream << x.i;
      return stream.str();
    };
    fail(ErrorKind::kValue,
         "a step of " + text(step) + " does not lead from " + text(start) + " to " + text(stop));
  }
  int64_t count = 0;
  if (floating)
    count = span == 0 ? 0 : static_cast<int64_t>(std::ceil(span));
  else if (start.i != stop.i) {
    // In numbers that hold the distance of any two int64s, which doubles round.
    __int128 distance = __int128(stop.i) - start.i, by = step.i;
    count = static_cast<int64_t>((distance + by - (by > 0 ? 1 : -1)) / by);
  }
  // Computed where the steps are exact: in float64 or, of integers, in int64, where a fraction of
  // start and of step is cut off, as in PyTorch.
  DType exact = floating && is_floating(chosen) ? DType::kFloat64 : DType::kInt64;
  Var x = emit_iota(exact, {count}, 0);
  if (step.as_double() != 1)
    x = emit_mul(x, broadcast(make_scalar(step, exact), x.dims()));
  if (start.as_double() != 0)
    x = emit_add(x, broadcast(make_scalar(start, exact), x.dims()));
  return wrap(chosen == exact ? x : emit_cast(x, chosen));
}
Tensor arange(Scalar stop, std::optional<DType> dtype, Location location) {
  return stop.dtype == DType::kFloat64 ? arange(0.0, stop, 1.0, dtype, location)
                                       : arange(0, stop, 1, dtype, location);
}

Tensor linspace(double start, double stop, int64_t steps, DType dtype, Location location) {
  Session session("linspace", location);
  if (steps < 0)
    fail(ErrorKind::kValue, "steps is " + std::to_string(steps) + "; it must not be negative");
  Var x = emit_iota(DType::kFloat64, {steps}, 0);
  double step = steps > 1 ? (stop - start) / static_cast<double>(steps - 1) : 0;
  x = emit_mul(x, broadcast(make_scalar(step, DType::kFloat64), x.dims()));
  x = emit_add(x, broadcast(make_scalar(start, DType::kFloat64), x.dims()));
  return wrap(dtype == DType::kFloat64 ? x : emit_cast(x, dtype));
}

Tensor eye(int64_t n, std::optional<int64_t> m, DType dtype, Location location) {
  Session session("eye", location);
  Shape shape = {n, m.value_or(n)};
  return wrap(emit_cast(emit_compare(Comparison::kEq, emit_iota(DType::kInt64, shape, 0),
                                     emit_iota(DType::kInt64, shape, 1)),
                        dtype));
}

} // namespace weft
