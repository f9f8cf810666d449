// Values: where the recorder has to compute.
#include <bit>
#include <cmath>
#include <cstring>

#include "frontend/recorder/record/emit.h"
#include "frontend/recorder/record/recorder.h"
#include "frontend/recorder/requests/requests.h"
#include "frontend/tensor/impl.h"
#include "runtime/memory/buffer.h"
#include "weft/eval.h"

namespace weft {

using namespace recorder;

namespace {

// The recorded value of the storage, where that is another one than x, which the tensor has. Of a
// view nobody holds x once it was looked at, so that the storage's value is what has to stay: a cut
// that is not asked for it may take it for a temporary of the line (temporaries.cpp), which a later
// program computes again, and loses if it fails.
Var behind(TensorImpl &impl, const Var &x) {
  const Var &held = impl.storage()->var;
  return held.value->node && held.value.get() != x.value.get() ? held : Var();
}

// Whether a view is read whose storage has no other handle: it was made in an expression that has
// ended, so that it has a name, and may be read again.
bool outlives_its_base(TensorImpl &impl) {
  return impl.is_view() && impl.storage()->refs.load(std::memory_order_relaxed) == 1;
}

// The tensor's value in memory. A view keeps what it computed for the pointer's sake.
Var evaluated(const Tensor &tensor, CutReason reason, Location location) {
  checked(tensor, "self");
  take_over_storage(tensor);
  Var x = read(tensor, "self"), more;
  if (outlives_its_base(*tensor.impl()))
    more = behind(*tensor.impl(), x);
  Value *roots[] = {x.value.get(), more.value.get()};
  submit({roots, more ? size_t(2) : size_t(1)}, {reason, location});
  return x;
}

template <typename T>
constexpr bool kNarrow = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

// Rounds once: a double goes to a 16-bit float through a float that is odd where it is inexact.
float odd_float(double x) {
  float near = static_cast<float>(x);
  double back = static_cast<double>(near);
  if (back == x || std::isnan(x))
    return near;
  uint32_t bits = std::bit_cast<uint32_t>(near);
  return std::bit_cast<float>((std::fabs(back) > std::fabs(x) ? bits - 1 : bits) | 1);
}

template <typename From, typename To> To convert_one(From x) {
  if constexpr (std::is_same_v<From, To>)
    return x;
  else if constexpr (kNarrow<From>)
    return convert_one<float, To>(static_cast<float>(x));
  else if constexpr (kNarrow<To>)
    return To(std::is_same_v<From, float> ? static_cast<float>(x)
                                          : odd_float(static_cast<double>(x)));
  else if constexpr (std::is_same_v<To, bool>)
    return x != From(0);
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // As weft.cast: towards zero, saturating, NaN gives 0.
    if (std::isnan(x))
      return To(0);
    double d = static_cast<double>(x);
    if (d <= static_cast<double>(std::numeric_limits<To>::min()))
      return std::numeric_limits<To>::min();
    if (d >= static_cast<double>(std::numeric_limits<To>::max()))
      return std::numeric_limits<To>::max();
    return static_cast<To>(d);
  } else
    return static_cast<To>(x);
}

template <typename T, typename Out>
void convert(const void *data, DType dtype, int64_t count, Out out) {
  auto run = [&](auto zero) {
    using From = decltype(zero);
    auto *from = static_cast<const From *>(data);
    for (int64_t i = 0; i < count; ++i)
      out[i] = convert_one<From, T>(from[i]);
  };
  if (dtype == DType::kBool)
    return run(uint8_t()); // bytes, which a C++ bool may not be
  switch (dtype) {
#define WEFT_CONVERT(From, dtype)                                                                  \
  case DType::dtype:                                                                               \
    return run(From());
    WEFT_ELEMENT_TYPES(WEFT_CONVERT)
#undef WEFT_CONVERT
  }
}

} // namespace

template <ElementType T> T Tensor::item(Location location) const {
  Session session("item", location);
  const TypeInfo &type = *checked(*this, "self")->type;
  if (type.elements != 1)
    fail(ErrorKind::kShape, "the tensor has shape " + weft::to_string(type.dims) +
                                "; item() is for tensors of one element");
  Var x = evaluated(*this, CutReason::kValue, location);
  T result[1];
  std::vector<char> room;
  convert<T>(host_bytes(x.value.get(), location, room), type.dtype, 1, result);
  return result[0];
}

template <ElementType T> std::vector<T> Tensor::to_vector(Location location) const {
  Session session("to_vector", location);
  const TypeInfo &type = *checked(*this, "self")->type;
  Var x = evaluated(*this, CutReason::kValue, location);
  std::vector<char> room;
  const void *data = host_bytes(x.value.get(), location, room);
  std::vector<T> result(static_cast<size_t>(type.elements));
  convert<T>(data, type.dtype, type.elements, result.begin());
  return result;
}

template <typename T>
std::vector<T> recorder::elements_at(const Tensor &tensor, std::span<const int64_t> places,
                                     Location location) {
  Var x = evaluated(tensor, CutReason::kValue, location);
  std::vector<char> room;
  auto *data = static_cast<const char *>(host_bytes(x.value.get(), location, room));
  std::vector<T> result(places.size());
  for (size_t i = 0; i < places.size(); ++i)
    convert<T>(data + places[i] * byte_size(x.dtype()), x.dtype(), 1, result.data() + i);
  return result;
}
template std::vector<double> recorder::elements_at<double>(const Tensor &, std::span<const int64_t>,
                                                           Location);
template std::vector<int64_t>
recorder::elements_at<int64_t>(const Tensor &, std::span<const int64_t>, Location);

const void *Tensor::data_bytes(Location location) const {
  Session session("data", location);
  TensorImpl *impl = checked(*this, "self");
  Var x = evaluated(*this, CutReason::kValue, location);
  refuse_part(x.type(), location);
  if (impl->is_view())
    impl->view->pinned = x.value;
  const void *there = wait_for(x.value.get(), location);
  if (x.value->is_scalar || host_reads(x.device()))
    return there;
  std::shared_ptr<runtime::Buffer> &copy = x.value->cell->on_host;
  if (!copy) {
    std::vector<char> room;
    copy = buffer_of(host_bytes(x.value.get(), location, room), x.type().bytes, 0);
  }
  return copy->data();
}

void *Tensor::mutable_data_bytes(Location location) {
  Session session("mutable_data", location);
  TensorImpl *impl = checked(*this, "self");
  take_over_storage(*this);
  if (impl->is_view())
    fail(
        ErrorKind::kState,
        "this shares the memory of another tensor, as a view or by detach(); write to that tensor, "
        "or copy_ into this one");
  refuse_lent(*impl);
  if (impl->leaf && grad_mode())
    fail(ErrorKind::kState, "a leaf tensor that requires grad cannot be written while history is "
                            "kept; do it under weft::NoGrad");
  if (!host_reads(impl->type->device))
    fail(ErrorKind::kDevice, "the tensor is on " + device_text(impl->type->device) +
                                 ", whose memory the host does not write; copy_ a tensor of the "
                                 "host into it");
  if (impl->var.grad)
    fail(ErrorKind::kState, "the tensor was computed with history, which a write behind its back "
                            "would make wrong; detach().clone() it first");
  refuse_part(*impl->type, location);
  Var x = evaluated(*this, CutReason::kWrite, location);
  if (Trace *trace = thread_trace)
    trace->on_write(impl);
  // Others than x and the storage may still refer to the value (saved for a derivative, or recorded
  // ops): they keep the old one.
  uint32_t own = impl->var.value.get() == x.value.get() ? 2 : 1;
  if (x.value->handles > own || x.value->uses > 0 || x.value->weak > 0) {
    x = make_leaf(impl->type, buffer_of(wait_for(x.value.get(), location), impl->type->bytes,
                                        impl->type->device));
  }
  ++impl->version;
  impl->var.value = x.value; // a leaf's history is not its storage's
  return make_writable(x.value.get(), location);
}

template <ElementType T> const T *Tensor::data(Location location) const {
  Session session("data", location);
  DType dtype = checked(*this, "self")->type->dtype;
  if (dtype != dtype_of<T>())
    fail(ErrorKind::kDType, std::string("the tensor is ") + name(dtype) +
                                ", asked for was a pointer to " + name(dtype_of<T>()) +
                                "; convert with to()");
  return static_cast<const T *>(data_bytes(location));
}

template <ElementType T> T *Tensor::mutable_data(Location location) {
  Session session("mutable_data", location);
  DType dtype = checked(*this, "self")->type->dtype;
  if (dtype != dtype_of<T>())
    fail(ErrorKind::kDType, std::string("the tensor is ") + name(dtype) +
                                ", asked for was a pointer to " + name(dtype_of<T>()));
  return static_cast<T *>(mutable_data_bytes(location));
}

static void want_elements(const Tensor &tensor, DType dtype, int64_t dims) {
  const TypeInfo &type = *checked(tensor, "self")->type;
  if (type.dtype != dtype)
    fail(ErrorKind::kDType, std::string("the tensor is ") + name(type.dtype) +
                                ", asked for was an accessor of " + name(dtype) +
                                "; convert with to()");
  if (type.ndim() != dims)
    fail(ErrorKind::kShape, "the tensor has shape " + to_string(type.dims) +
                                ", asked for was an accessor of " + std::to_string(dims) +
                                (dims == 1 ? " dim" : " dims"));
}

const void *Tensor::accessed(DType dtype, int64_t dims, Location location) const {
  Session session("accessor", location);
  want_elements(*this, dtype, dims);
  return data_bytes(location);
}

void *Tensor::accessed_to_write(DType dtype, int64_t dims, Location location) {
  Session session("mutable_accessor", location);
  want_elements(*this, dtype, dims);
  return mutable_data_bytes(location);
}

void recorder::refuse_position(int64_t position, int64_t size, int64_t dims, Location location) {
  fail_at(location, ErrorKind::kIndex,
          "accessor: position " + std::to_string(position) + " is out of range for dim -" +
              std::to_string(dims) + ", which has size " + std::to_string(size));
}

#define WEFT_INSTANTIATE(T, dtype)                                                                 \
  template T Tensor::item<T>(Location) const;                                                      \
  template std::vector<T> Tensor::to_vector<T>(Location) const;                                    \
  template const T *Tensor::data<T>(Location) const;                                               \
  template T *Tensor::mutable_data<T>(Location);
WEFT_ELEMENT_TYPES(WEFT_INSTANTIATE)
#undef WEFT_INSTANTIATE

//===-- eval.h --------------------------------------------------------------------------------===//

namespace {

void submit_all(std::span<const Tensor> tensors, CutReason reason, bool wait) {
  std::vector<Var> vars;
  std::vector<Value *> roots;
  auto ask = [&](Var x) {
    vars.push_back(std::move(x));
    roots.push_back(vars.back().value.get());
  };
  for (const Tensor &tensor : tensors) {
    // A storage that starts from a known value is what later steps find it to be.
    if (!tensor.defined() ||
        (reason == CutReason::kInit && checked(tensor, "tensors")->storage()->start))
      continue;
    if (wait)
      take_over_storage(tensor);
    ask(read(tensor, "tensors"));
    // What eval() is asked for stays.
    if (Var more = wait ? behind(*tensor.impl(), vars.back()) : Var())
      ask(std::move(more));
  }
  // Not the call's own: that of a module's constructor stands where the constructor is called.
  Location location = Session::location();
  submit(roots, {reason, location});
  if (!wait)
    return;
  for (Value *root : roots)
    wait_for(root, location);
}

} // namespace

const Tensor &Tensor::eval(Location location) const {
  Session session("eval", location);
  checked(*this, "self");
  submit_all({this, 1}, CutReason::kEval, true);
  return *this;
}

void eval(std::span<const Tensor> tensors, Location location) {
  Session session("eval", location);
  submit_all(tensors, CutReason::kEval, true);
}

void submit_step(std::span<const Tensor> tensors, Location location) {
  Session session("step", location);
  mark();
  if (!active_trace())
    submit_all(tensors, CutReason::kStep, false);
}

void make_step(std::span<const Tensor> writes, const std::function<std::vector<Tensor>()> &record,
               Location location) {
  location = CallerScope::resolve(location);
  // What others have written there, and is yet to be computed, is not the step's to take back; null
  // where a tensor is in memory. The values may go, once the step's write has taken their place.
  std::vector<std::pair<Tensor, WeakRef>> before;
  {
    Session session("step", location);
    for (const Tensor &tensor : writes)
      if (tensor.defined()) {
        Value *value = tensor.impl()->storage()->var.value.get();
        before.emplace_back(tensor, value && value->node ? value : nullptr);
      }
  }
  try {
    submit_step(record(), location);
  } catch (...) {
    Session session("step", location);
    if (!active_trace()) // else the trace puts back all that the function wrote
      for (const auto &[tensor, pending] : before) {
        TensorImpl *storage = tensor.impl()->storage();
        if (Value *now = storage->var.value.get(); now && now->node)
          take_back_write(*storage, pending.get());
      }
    throw;
  }
}

void submit_init(std::span<const Tensor> tensors, Location location) {
  Session session("init", location);
  if (!active_trace())
    submit_all(tensors, CutReason::kInit, false);
}

void synchronize() {
  synchronize_all();
}

} // namespace weft
