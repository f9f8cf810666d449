// What a tensor is, views, and writes in place.
#include "weft/tensor.h"

#include <algorithm>
#include <numeric>

#include "frontend/autograd/hooks.h"
#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/recorder/requests/requests.h"
#include "frontend/tensor/impl.h"
#include "weft/autograd.h"
#include "weft/eval.h"
#include "weft/ops.h"

namespace weft {

using namespace recorder;

std::string to_string(const Shape &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

//===-- What it is ----------------------------------------------------------------------------===//

namespace {
const TypeInfo &type_of(const Tensor &tensor, Location location) {
  if (!tensor.defined())
    fail_at(location, ErrorKind::kState,
            std::string("an undefined tensor has no shape and no dtype: ") + kWhyUndefined);
  return *tensor.impl()->type;
}
} // namespace

DType Tensor::dtype(Location location) const {
  return type_of(*this, location).dtype;
}
Device Tensor::device(Location location) const {
  return device_at(type_of(*this, location).device);
}
Tensor Tensor::to(Device device, Location location) const {
  Session session("to", location);
  Var x = read(*this, "self");
  int there = device.index();
  return x.device() == there ? *this : wrap(on_device(std::move(x), static_cast<uint8_t>(there)));
}
const Shape &Tensor::shape(Location location) const {
  return type_of(*this, location).dims;
}
int64_t Tensor::size(Location location) const {
  return type_of(*this, location).elements;
}
int64_t Tensor::nbytes(Location location) const {
  return type_of(*this, location).bytes;
}
int64_t Tensor::size(int64_t dim, Location location) const {
  Session session("size", location);
  const TypeInfo &type = *checked(*this, "self")->type;
  return type.dims[normalize_dim(dim, type.ndim(), "dim")];
}
uint64_t Tensor::version(Location location) const {
  Session session("version", location);
  return checked(*this, "self")->storage()->version;
}

//===-- Autograd ------------------------------------------------------------------------------===//

bool Tensor::requires_grad(Location location) const {
  Session session("requires_grad", location);
  return has_history(*checked(*this, "self"));
}

bool Tensor::is_leaf(Location location) const {
  Session session("is_leaf", location);
  return !requires_grad() || impl_->leaf;
}

Tensor &Tensor::set_requires_grad(bool value, Location location) {
  Session session("set_requires_grad", location);
  TensorImpl *impl = checked(*this, "self");
  // Of what was computed from tensors that require grad it is true already, and stays so.
  bool changes = value != requires_grad();
  note_requires_grad(impl, changes);
  if (!changes)
    return *this;
  if (!value) {
    if (!impl->leaf)
      fail(ErrorKind::kState, "the tensor was computed from tensors that require grad, or is a "
                              "view of one; detach() gives it without history, and detach_() "
                              "lets its own go");
    note_own_leaf(*impl->leaf);
    impl->frozen = std::move(impl->leaf);
    return *this;
  }
  if (!is_floating(impl->type->dtype))
    fail(ErrorKind::kDType, std::string("only floating tensors can require grad, this one is ") +
                                name(impl->type->dtype));
  const TypeInfo *type = current_type(*this, "self");
  impl->leaf = impl->frozen && impl->frozen->leaf_type.get() == type ? std::move(impl->frozen)
                                                                     : make_grad_leaf(type);
  impl->leaf->name = impl->name;
  impl->frozen = GradRef();
  // It is a parameter now: what a loop's first step finds must not differ from what the others
  // find.
  submit_init({this, 1}, location);
  return *this;
}

// Of a tensor that is or was marked.
static GradNode *gradient_leaf(const TensorImpl &impl) {
  return impl.leaf ? impl.leaf.get() : impl.frozen.get();
}

Tensor Tensor::grad(Location location) const {
  Session session("grad", location);
  GradNode *leaf = gradient_leaf(*checked(*this, "self"));
  if (!leaf)
    return Tensor();
  if (Trace *trace = thread_trace)
    trace->on_grad(leaf);
  return leaf->grad;
}

void Tensor::set_grad(const Tensor &grad, Location location) {
  Session session("set_grad", location);
  GradNode *leaf = gradient_leaf(*checked(*this, "self"));
  if (!leaf) {
    if (!grad.defined())
      return;
    fail(ErrorKind::kState, "only a leaf that requires grad has one");
  }
  Tensor own = grad;
  if (grad.defined()) {
    const TypeInfo &type = *current_type(grad, "grad"), &to = *leaf->leaf_type;
    if (type.dtype != to.dtype || type.dims != to.dims || type.device != to.device)
      fail(type.device != to.device ? ErrorKind::kDevice
           : type.dims != to.dims   ? ErrorKind::kShape
                                    : ErrorKind::kDType,
           "the gradient is " + describe(type) + ", the tensor is " + describe(to) +
               ": they must have one dtype and shape, and lie on one device");
    if (is_lent(*grad.impl()->storage()))
      fail(ErrorKind::kState, "the gradient lies in memory that from_blob was given, and a backward "
                              "adds to it; give a clone() of it");
    if (&type != &to)
      own = wrap_quietly(resharded(read(grad, "grad"), &to));
  }
  if (Trace *trace = thread_trace)
    trace->on_grad(leaf);
  leaf->grad = own;
}

Tensor Tensor::detach(Location location) const {
  Session session("detach", location);
  return make_detached(*this);
}

Tensor &Tensor::detach_(Location location) {
  Session session("detach_", location);
  TensorImpl *impl = checked(*this, "self");
  if (impl->leaf)
    return set_requires_grad(false, location);
  Trace *trace = active_trace();
  if (impl->is_view()) {
    if (impl->view->history == View::History::kOfBase && requires_grad())
      fail(ErrorKind::kState, "self is a view, whose history is that of what it is a view of; "
                              "detach() gives a view without");
    if (trace)
      trace->on_own_history(impl);
    impl->view->own = GradEdge();
    return *this;
  }
  if (trace && impl->var && impl->var.value->node && may_have_gradient(impl->var)) {
    impl->var.value = without_gradient(impl->var).value;
    ++impl->version;
  }
  if (!impl->var.grad)
    return *this;
  if (trace && impl->var.grad->number < trace->first_gradient)
    fail(ErrorKind::kState, std::string("self has a history from outside of the function that "
                                        "weft::") +
                                trace->what + " records; call detach_() before, or use detach()");
  impl->var.grad = GradRef();
  return *this;
}

Tensor Tensor::clone(Location location) const {
  Session session("clone", location);
  Var x = read(*this, "self");
  // At once, as the caller of from_blob counts on, through views too.
  if (x.value->node && !active_trace() && is_lent(*impl_->storage())) {
    Value *value = x.value.get();
    submit({&value, 1}, {CutReason::kEval, location});
    wait_for(value, location);
  }
  return wrap(std::move(x));
}

//===-- Views ---------------------------------------------------------------------------------===//

Tensor Tensor::reshape(const Shape &shape, Location location) const {
  Session session("reshape", location);
  const TypeInfo &type = *checked(*this, "self")->type;
  Shape dims = shape;
  int64_t known = 1, open = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == -1 && open < 0)
      open = static_cast<int64_t>(i);
    else if (dims[i] < 0)
      fail(ErrorKind::kShape, "shape " + weft::to_string(shape) +
                                  " is not one: sizes must not be negative, and one may be -1");
    else if (__builtin_mul_overflow(known, dims[i], &known))
      fail(ErrorKind::kShape,
           "shape " + weft::to_string(shape) + " has more elements than an int64 counts");
  }
  if (open >= 0) {
    if (known == 0 || type.elements % known != 0)
      fail(ErrorKind::kShape, "the " + std::to_string(type.elements) + " elements of shape " +
                                  weft::to_string(type.dims) + " do not divide into shape " +
                                  weft::to_string(shape));
    dims[open] = type.elements / known;
  } else if (known != type.elements) {
    fail(ErrorKind::kShape, "shape " + weft::to_string(type.dims) + " has " +
                                std::to_string(type.elements) + " elements, shape " +
                                weft::to_string(shape) + " has " + std::to_string(known));
  }
  return make_view(*this, {{ViewStep::Kind::kReshape, dims, {}, {}, {}, {}}});
}

Tensor Tensor::contiguous(Location location) const {
  Session session("contiguous", location);
  checked(*this, "self");
  return *this;
}

Tensor Tensor::flatten(int64_t start_dim, int64_t end_dim, Location location) const {
  Session session("flatten", location);
  const TypeInfo &type = *checked(*this, "self")->type;
  int64_t start = normalize_dim_or_scalar(start_dim, type.ndim(), "start_dim"),
          end = normalize_dim_or_scalar(end_dim, type.ndim(), "end_dim");
  if (start > end)
    fail(ErrorKind::kValue, "start_dim " + std::to_string(start_dim) + " lies behind end_dim " +
                                std::to_string(end_dim));
  Shape dims(type.dims.begin(), type.dims.begin() + std::min<int64_t>(start, type.ndim()));
  // Of no elements where a dim among them has none. One that lies outside does not bound the
  // product of the others.
  auto first = type.dims.begin() + std::min<int64_t>(start, type.ndim()),
       last = type.dims.begin() + std::min<int64_t>(end + 1, type.ndim());
  int64_t product = std::find(first, last, 0) == last ? 1 : 0;
  for (auto dim = first; dim != last; ++dim)
    if (__builtin_mul_overflow(product, *dim, &product))
      fail(ErrorKind::kShape, "dimensions " + std::to_string(start) + " to " +
                                  std::to_string(end) + " of shape " +
                                  weft::to_string(type.dims) +
                                  " have together more elements than an int64 counts");
  dims.push_back(product);
  for (int64_t i = end + 1; i < type.ndim(); ++i)
    dims.push_back(type.dims[i]);
  return reshape(dims, location);
}

Tensor Tensor::squeeze(Dims which, Location location) const {
  Session session("squeeze", location);
  const TypeInfo &type = *checked(*this, "self")->type;
  Shape chosen = normalize_dims(which, type.ndim(), "dims");
  Shape dims;
  for (int64_t i = 0; i < type.ndim(); ++i)
    if (type.dims[i] != 1 || !std::binary_search(chosen.begin(), chosen.end(), i))
      dims.push_back(type.dims[i]);
  return reshape(dims, location);
}

Tensor Tensor::unsqueeze(int64_t dim, Location location) const {
  Session session("unsqueeze", location);
  const TypeInfo &type = *checked(*this, "self")->type;
  Shape dims = type.dims;
  dims.insert(dims.begin() + normalize_dim(dim, type.ndim() + 1, "dim"), 1);
  return reshape(dims, location);
}

Tensor Tensor::permute(const Shape &permutation, Location location) const {
  Session session("permute", location);
  const TypeInfo &type = *checked(*this, "self")->type;
  ViewStep step{ViewStep::Kind::kTranspose, {}, {}, {}, {}, {}};
  std::vector<bool> seen(type.dims.size());
  for (int64_t dim : permutation) {
    int64_t d = normalize_dim(dim, type.ndim(), "permutation");
    if (seen[d])
      break;
    seen[d] = true;
    step.permutation.push_back(d);
    step.dims.push_back(type.dims[d]);
  }
  if (permutation.size() != type.dims.size() || step.permutation.size() != type.dims.size())
    fail(ErrorKind::kValue, weft::to_string(permutation) + " does not name each of the " +
                                std::to_string(type.ndim()) + " dimensions of " +
                                weft::to_string(type.dims) + " once");
  return make_view(*this, {std::move(step)});
}

Tensor Tensor::transpose(int64_t dim0, int64_t dim1, Location location) const {
  Session session("transpose", location);
  int64_t rank = checked(*this, "self")->type->ndim();
  Shape permutation(rank);
  std::iota(permutation.begin(), permutation.end(), 0);
  int64_t a = normalize_dim_or_scalar(dim0, rank, "dim0"),
          b = normalize_dim_or_scalar(dim1, rank, "dim1");
  if (rank > 0)
    std::swap(permutation[a], permutation[b]);
  return permute(permutation, location);
}

Tensor Tensor::t(Location location) const {
  Session session("t", location);
  int64_t rank = checked(*this, "self")->type->ndim();
  if (rank > 2)
    fail(ErrorKind::kShape, "t() is for matrices, this tensor is " + weft::to_string(shape()) +
                                "; use transpose or mT");
  return rank < 2 ? permute(rank == 0 ? Shape{} : Shape{0}, location) : transpose(0, 1, location);
}

Tensor Tensor::mT(Location location) const {
  Session session("mT", location);
  if (checked(*this, "self")->type->ndim() < 2)
    fail(ErrorKind::kShape,
         "mT needs at least two dimensions, this tensor is " + weft::to_string(shape()));
  return transpose(-2, -1, location);
}

Tensor Tensor::expand(const Shape &shape, Location location) const {
  Session session("expand", location);
  const TypeInfo &type = *checked(*this, "self")->type;
  Shape dims = shape;
  int64_t extra = static_cast<int64_t>(dims.size()) - type.ndim();
  for (int64_t i = 0; i < static_cast<int64_t>(dims.size()); ++i) {
    int64_t own = i < extra ? 1 : i - extra < type.ndim() ? type.dims[i - extra] : 1;
    if (dims[i] == -1 && i >= extra)
      dims[i] = own;
    if (extra < 0 || dims[i] < 0 || (own != 1 && own != dims[i]))
      fail(ErrorKind::kShape, "shape " + weft::to_string(type.dims) + " does not expand to " +
                                  weft::to_string(shape) +
                                  ": only dimensions of size 1 repeat, and they align at the end");
  }
  if (extra < 0)
    fail(ErrorKind::kShape, "shape " + weft::to_string(type.dims) + " does not expand to " +
                                weft::to_string(shape) + ", which has fewer dimensions");
  return make_view(*this, {{ViewStep::Kind::kBroadcast, dims, {}, {}, {}, {}}});
}

//===-- In place ------------------------------------------------------------------------------===//

namespace {

// self = op(self, other), in self's dtype and shape.
Tensor &update(Tensor &self, TensorArg other, EmitBinary op, const char *op_name, Location location,
               std::optional<Scalar> alpha = {}) {
  Session session(op_name, location);
  TensorImpl *impl = checked(self, "self");
  Var value = arithmetic(op, op_name, TensorArg(self, location), other, op == emit_div, alpha);
  const TypeInfo &result = *value.value->type;
  if (result.dims != impl->type->dims)
    fail(ErrorKind::kShape, "self is " + describe(*impl->type) + ", but the result has shape " +
                                weft::to_string(result.dims) + ", which does not fit into it");
  if (dtype_category(result.dtype) > dtype_category(impl->type->dtype))
    fail(ErrorKind::kDType, std::string("the result is ") + name(result.dtype) +
                                ", which cannot be written into self, a tensor of " +
                                name(impl->type->dtype) +
                                "; convert with to(), or do it out of place");
  if (value.dtype() != impl->type->dtype)
    value = emit_cast(value, impl->type->dtype);
  write(self, std::move(value));
  after_call(self);
  return self;
}

} // namespace

Tensor &Tensor::add_(TensorArg other, Location location) {
  return update(*this, other, emit_add, "add_", location);
}
Tensor &Tensor::add_(TensorArg other, Scalar alpha, Location location) {
  return update(*this, other, emit_add, "add_", location, alpha);
}
Tensor &Tensor::sub_(TensorArg other, Location location) {
  return update(*this, other, emit_sub, "sub_", location);
}
Tensor &Tensor::sub_(TensorArg other, Scalar alpha, Location location) {
  return update(*this, other, emit_sub, "sub_", location, alpha);
}
Tensor &Tensor::mul_(TensorArg other, Location location) {
  return update(*this, other, emit_mul, "mul_", location);
}
Tensor &Tensor::div_(TensorArg other, Location location) {
  return update(*this, other, emit_div, "div_", location);
}

namespace recorder {

void fill_with(Tensor &self, const TensorArg &source, const Filling &names) {
  TensorImpl *impl = checked(self, "self");
  Var value = source.tensor() ? operand(source, impl->type->dtype, names.source)
                              : make_fitting_scalar(source.scalar(), impl->type->dtype);
  value = on_device(std::move(value), impl->type->device);
  if (names.drops_leading_ones)
    value = without_leading_ones(std::move(value), impl->type->ndim());
  if (value.dims() != impl->type->dims) {
    if (broadcast_shape(value.dims(), impl->type->dims, names.source, names.self) !=
        impl->type->dims)
      fail(ErrorKind::kShape, std::string(names.source) + " is " + describe(value) + ", " +
                                  names.self + " is " + describe(*impl->type) +
                                  ": it does not fit into it");
    value = emit_broadcast(value, impl->type->dims);
  }
  write(self, std::move(value));
  after_call(self);
}

Var without_leading_ones(Var x, int64_t rank) {
  int64_t extra = 0;
  while (x.ndim() - extra > rank && x.dims()[extra] == 1)
    ++extra;
  return extra ? emit_reshape(x, Shape(x.dims().begin() + extra, x.dims().end())) : x;
}

} // namespace recorder

Tensor &Tensor::copy_(TensorArg source, Location location) {
  Session session("copy_", location);
  fill_with(*this, source, {"source", "self"});
  return *this;
}

Tensor &Tensor::fill_(TensorArg value, Location location) {
  Session session("fill_", location);
  fill_with(*this, value, {"value", "self"});
  return *this;
}

Tensor &Tensor::zero_(Location location) {
  Session session("zero_", location);
  fill_with(*this, 0, {"value", "self"});
  return *this;
}

} // namespace weft
