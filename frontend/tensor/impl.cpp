#include "frontend/tensor/impl.h"

#include <algorithm>
#include <limits>
#include <mutex>

#include "frontend/autograd/hooks.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/recorder/requests/requests.h"
#include "frontend/tensor/autocast.h"
#include "frontend/tensor/tensor_indexing.h"
#include "weft/autograd.h"

namespace weft {
namespace recorder {

namespace {
// What this thread's last index made, and the caller's line of it.
struct Assignable {
  const TensorImpl *impl = nullptr;
  Location location = {};
};
thread_local Assignable last_assignable;
} // namespace

void note_assignable(const Tensor &made) {
  last_assignable = {made.impl(), Session::location()};
}

namespace {

Var apply(const ViewStep &step, const Var &x) {
  switch (step.kind) {
  case ViewStep::Kind::kReshape:
    return emit_reshape(x, step.dims);
  case ViewStep::Kind::kTranspose:
    return emit_transpose(x, step.permutation);
  case ViewStep::Kind::kBroadcast:
    return emit_broadcast(x, step.dims);
  case ViewStep::Kind::kSlice:
    return emit_slice(x, step.starts, step.limits, step.steps);
  }
  return Var();
}

// The value of `from`, which the step leads away from, after its view was given a new value.
Var put(const ViewStep &step, const Var &from, const Var &value) {
  switch (step.kind) {
  case ViewStep::Kind::kReshape:
    return emit_reshape(value, from.dims());
  case ViewStep::Kind::kTranspose: {
    Shape inverse(step.permutation.size());
    for (size_t i = 0; i < inverse.size(); ++i)
      inverse[step.permutation[i]] = static_cast<int64_t>(i);
    return emit_transpose(value, inverse);
  }
  case ViewStep::Kind::kBroadcast:
    if (value.type().elements == from.type().elements)
      return emit_reshape(value, from.dims()); // it has dims of size 1 more
    fail(ErrorKind::kState,
         "cannot write through an expanded view of shape " + to_string(step.dims) +
             ": several of its elements are one element of the " + to_string(from.dims()) +
             " tensor behind it; write to that, or to a clone()");
  case ViewStep::Kind::kSlice:
    return emit_insert_slice(from, value, step.starts, step.steps);
  }
  return Var();
}

// Makes one slice of two. Where a dim has one element or none, its step means nothing and is 1, so
// that no product of steps exceeds the dim that `first` cuts.
void compose_slices(ViewStep &first, ViewStep second) {
  for (size_t i = 0; i < second.dims.size(); ++i) {
    int64_t count = second.dims[i];
    int64_t start = count > 0 ? first.starts[i] + second.starts[i] * first.steps[i] : 0;
    int64_t step = count > 1 ? first.steps[i] * second.steps[i] : 1;
    first.starts[i] = start;
    first.limits[i] = count > 0 ? start + (count - 1) * step + (step > 0 ? 1 : -1) : start;
    first.steps[i] = step;
  }
  first.dims = std::move(second.dims);
}

bool takes_all(const ViewStep &slice, const Shape &from) {
  auto is = [](int64_t value) {
    return [value](int64_t x) { return x == value; };
  };
  return slice.dims == from && std::all_of(slice.starts.begin(), slice.starts.end(), is(0)) &&
         std::all_of(slice.steps.begin(), slice.steps.end(), is(1));
}

// The slice of what `repeats` makes of a tensor of shape `from` as a slice of that tensor, for
// `repeats` to make of it what the slice has. What is repeated is sliced whole.
ViewStep behind_slice(const ViewStep &repeats, const ViewStep &slice, const Shape &from) {
  Shape starts(from.size(), 0), steps(from.size(), 1);
  ViewStep part{ViewStep::Kind::kSlice, from, {}, std::move(starts), from, std::move(steps)};
  size_t extra = repeats.dims.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != repeats.dims[extra + i])
      continue;
    part.dims[i] = slice.dims[extra + i];
    part.starts[i] = slice.starts[extra + i];
    part.limits[i] = slice.limits[extra + i];
    part.steps[i] = slice.steps[extra + i];
  }
  return part;
}

// Adds the step to those that lead away from a tensor of shape `base`; two of a kind in a row
// become one, so that chains stay short. A slice stands in front of repeats: where it takes each
// element once, nothing is repeated any more, and what is written to it has a place.
void add_step(std::vector<ViewStep> &steps, ViewStep step, const Shape &base) {
  if (step.kind == ViewStep::Kind::kSlice && !steps.empty() &&
      steps.back().kind == ViewStep::Kind::kBroadcast) {
    ViewStep repeats = std::move(steps.back());
    steps.pop_back();
    const Shape &from = steps.empty() ? base : steps.back().dims;
    ViewStep part = behind_slice(repeats, step, from);
    repeats.dims = std::move(step.dims);
    if (!takes_all(part, from))
      add_step(steps, std::move(part), base);
    step = std::move(repeats);
  }
  if (!steps.empty() && steps.back().kind == step.kind) {
    ViewStep &last = steps.back();
    if (step.kind == ViewStep::Kind::kReshape || step.kind == ViewStep::Kind::kBroadcast) {
      last.dims = step.dims;
      return;
    }
    if (step.kind == ViewStep::Kind::kTranspose) {
      Shape combined(step.permutation.size());
      bool identity = true;
      for (size_t i = 0; i < combined.size(); ++i) {
        combined[i] = last.permutation[step.permutation[i]];
        identity = identity && combined[i] == static_cast<int64_t>(i);
      }
      last.permutation = std::move(combined);
      last.dims = step.dims;
      if (identity)
        steps.pop_back();
      return;
    }
    compose_slices(last, std::move(step));
    if (takes_all(last, steps.size() > 1 ? steps[steps.size() - 2].dims : base))
      steps.pop_back();
    return;
  }
  if (step.dims == (steps.empty() ? base : steps.back().dims) &&
      (step.kind == ViewStep::Kind::kReshape || step.kind == ViewStep::Kind::kBroadcast))
    return;
  steps.push_back(std::move(step));
}

// The steps of views of which each is one of the next, from what the last one is of.
std::vector<ViewStep> steps_of(std::span<const View *const> views) {
  std::vector<ViewStep> steps = views.back()->steps;
  const Shape &dims = views.back()->base.impl()->type->dims;
  for (size_t i = views.size() - 1; i-- > 0;)
    for (const ViewStep &step : views[i]->steps)
      add_step(steps, step, dims);
  return steps;
}

// Makes the view one of the storage behind the tensor, or of the detached handle before it where
// the view hangs on those, by the steps of all views between.
void hang_on_storage(View &view, const Tensor &tensor, bool on_detached) {
  std::vector<const View *> between;
  auto is_base = [&](const TensorImpl &impl) {
    return !impl.is_view() || (on_detached && impl.view->history == View::History::kOwn);
  };
  for (const TensorImpl *impl = tensor.impl(); !is_base(*impl); impl = impl->view->base.impl())
    between.push_back(impl->view.get());
  if (between.empty()) {
    view.base = tensor;
    return;
  }
  view.base = between.back()->base;
  view.steps = steps_of(between);
}

// Its base and history are settled.
void become_view(TensorImpl &impl, std::unique_ptr<View> view) {
  if (view->is_apart())
    view->base.impl()->refs_apart.fetch_add(1, std::memory_order_relaxed);
  impl.view = std::move(view);
}

// No handle is left that sees the history. The object may be gone afterwards: a gradient that goes
// with the history may be what keeps it.
void drop_history(TensorImpl &impl) {
  GradRef computed = std::move(impl.var.grad), leaf = std::move(impl.leaf),
          frozen = std::move(impl.frozen), own;
  if (impl.is_view())
    own = std::move(impl.view->own.node);
}

// One reference less, where neither it nor the history goes with it.
bool leave(TensorImpl &impl) {
  uint32_t refs = impl.refs.load(std::memory_order_acquire);
  while (refs > impl.refs_apart.load(std::memory_order_relaxed) + 1)
    if (impl.refs.compare_exchange_weak(refs, refs - 1, std::memory_order_acq_rel,
                                        std::memory_order_acquire))
      return true;
  return false;
}

// Under the recorder's lock: one reference less. True where it was the last.
bool leave_locked(TensorImpl &impl) {
  uint32_t left = impl.refs.fetch_sub(1, std::memory_order_acq_rel) - 1;
  if (left == 0)
    return true;
  if (left == impl.refs_apart.load(std::memory_order_relaxed))
    drop_history(impl);
  return false;
}

} // namespace

BesideTensor::BesideTensor(const Tensor &tensor)
    : before_(std::exchange(call_device, {checked(tensor, "x")->type->device, true})) {}

TensorImpl::~TensorImpl() {
  if (before)
    forget_write(*this);
}

namespace {
void begin(TensorImpl &storage) {
  std::shared_ptr<const StartingValue> start = storage.start;
  Var made = in_memory(*start, *storage.type);
  if (storage.start != start)
    return; // another thread was faster
  storage.var = std::move(made);
  storage.start = nullptr;
}
} // namespace

bool has_history(const TensorImpl &impl) {
  for (const TensorImpl *each = &impl;; each = each->view->base.impl()) {
    if (each->leaf)
      return true;
    if (!each->is_view())
      return static_cast<bool>(each->var.grad);
    if (each->view->is_apart())
      return static_cast<bool>(each->view->own.node);
  }
}

void note_requires_grad(TensorImpl *tensor, bool changes) {
  Trace *trace = active_trace();
  if (!trace)
    return;
  if (TensorImpl *storage = tensor->storage(); storage->start)
    begin(*storage);
  trace->on_requires_grad(tensor, changes);
}

// Out of line, as read_view() is: most calls read storages, and need small frames.
[[noreturn, gnu::noinline]] static void refuse_undefined(const char *argument) {
  fail(ErrorKind::kState,
       std::string("'") + argument +
           "' is an undefined tensor: " + kWhyUndefined);
}

TensorImpl *checked(const Tensor &tensor, const char *argument) {
  if (!tensor.defined())
    refuse_undefined(argument);
  note_device(*tensor.impl()->type);
  return tensor.impl();
}

// What a tensor that requires grad itself is to gradients.
static void mark_leaf(const TensorImpl &impl, Var &x) {
  if (impl.leaf) {
    x.grad = impl.leaf;
    x.grad_index = 0;
  }
}

static Var read_storage(TensorImpl *impl) {
  if (impl->start)
    begin(*impl);
  if (Trace *trace = thread_trace)
    trace->on_read(impl);
  Var x = impl->var;
  if (impl->name) {
    Session::note_read(*impl->name);
    if (Cell *cell = x.value->cell; cell && cell->name.get() != impl->name.get())
      cell->name = impl->name;
  }
  mark_leaf(*impl, x);
  return x;
}

// The value of a view whose base has the value `from`, while its storage has this version.
static Var read_step(View &view, Var from, uint64_t version) {
  if (view.history != View::History::kOfBase)
    from = from.without_history();
  bool wants_history = static_cast<bool>(from.grad) && grad_mode();
  // The history outlives the value, which goes when it was computed and nobody holds it: whatever
  // was made of this view before leads to the same node as what is made of it now.
  if (view.cached_version != version) {
    view.cached = nullptr;
    view.cached_history = view.cached_base = GradEdge();
  }
  bool same_base =
      view.cached_base.node.get() == from.grad.get() && view.cached_base.index == from.grad_index;
  if (wants_history && !same_base)
    view.cached_history = GradEdge();
  bool alive =
      view.cached && !view.cached->gone() && !view.cached->withdrawn && !is_lost(view.cached);
  // What was read without history in a trace stops gradients, which the view does not.
  if (alive && view.cached->no_grad && grad_mode())
    alive = false;
  Var x;
  if (alive && (!wants_history || view.cached_history.node)) {
    x.value = ValueRef(view.cached);
  } else {
    x = wants_history && view.cached_history.node ? from.without_history() : from;
    if (view.is_apart() && version != view.written_at)
      x = without_gradient(x);
    for (const ViewStep &step : view.steps)
      x = apply(step, x);
    // To a gradient a view is a tensor of its own, one that changes nothing too, as in PyTorch.
    if (view.steps.empty() && wants_history && x.grad)
      x = with_own_history(x);
    view.cached = x.value.get();
    view.cached_version = version;
    if (x.grad) {
      view.cached_history = GradEdge{x.grad, x.grad_index};
      view.cached_base = GradEdge{from.grad, from.grad_index};
    }
  }
  if (wants_history) {
    x.grad = view.cached_history.node;
    x.grad_index = view.cached_history.index;
  }
  if (view.history == View::History::kOwn) {
    x.grad = view.own.node;
    x.grad_index = view.own.index;
  }
  return x;
}

// From the storage up, without recursion: views of views may be many.
[[gnu::noinline]] static Var read_view(TensorImpl *impl, const char *argument) {
  absl::InlinedVector<TensorImpl *, 4> views;
  TensorImpl *storage = impl;
  for (; storage->is_view(); storage = checked(storage->view->base, argument))
    views.push_back(storage);
  Var x = read_storage(storage);
  bool lent = is_lent(*storage);
  for (uint32_t i = views.size(); i-- > 0;) {
    // What was computed of lent memory is not what is in it now.
    if (WeakRef &computed = views[i]->view->cached; lent && computed && computed->is_leaf())
      computed = nullptr;
    x = read_step(*views[i]->view, std::move(x), storage->version);
    mark_leaf(*views[i], x);
  }
  return x;
}

static Var read_as_is(const Tensor &tensor, const char *argument) {
  TensorImpl *impl = checked(tensor, argument);
  return impl->is_view() ? read_view(impl, argument) : read_storage(impl);
}

// Out of line: most calls cast nothing.
[[gnu::noinline]] static Var cast_for_call(Var x) {
  DType dtype = call_dtype(x.dtype());
  return dtype == x.dtype() ? std::move(x) : emit_cast(x, dtype);
}

Var read(const Tensor &tensor, const char *argument) {
  Var x = read_as_is(tensor, argument);
  return thread_autocast.enabled ? cast_for_call(std::move(x)) : x;
}

void take_over_storage(const Tensor &tensor) {
  TensorImpl *impl = tensor.impl();
  if (!impl->is_view() || thread_trace)
    return;
  const View &view = *impl->view;
  // Views of views are one view, where none has more than its history.
  TensorImpl *below = impl;
  bool is_shared = false, has_more = impl->leaf || impl->frozen;
  do {
    below = below->view->base.impl();
    is_shared = is_shared || below->refs.load(std::memory_order_acquire) > 1;
    has_more = has_more || below->leaf || below->frozen;
  } while (below->is_view() && below->view->history == View::History::kOfBase);
  if (below->is_view())
    return;
  TensorImpl &base = *below;
  has_more = has_more || base.name || base.start || base.before || base.type->part;
  // A claimed op's run is under way, for who reads the view as one.
  const Node *node = is_shared || has_more ? nullptr : base.var.value->node;
  if (!node || node->claimed)
    return;
  if (view.history == View::History::kOfBase && base.var.grad && !grad_mode())
    return; // what is read now has no history, and the view has one
  impl->var = read_view(impl, "self");
  impl->version = base.version; // of views that hang on this one
  impl->view = nullptr;
}

const TypeInfo *current_type(const Tensor &tensor, const char *argument) {
  TensorImpl *impl = checked(tensor, argument);
  return impl->is_view() && impl->storage()->type->part
             ? read_as_is(tensor, argument).value->type.get()
             : impl->type.get();
}

bool is_lent(const TensorImpl &storage) {
  return storage.var && storage.var.value->cell && storage.var.value->cell->lent;
}

void refuse_lent(const TensorImpl &storage) {
  if (is_lent(storage))
    fail(ErrorKind::kState, "self lies in memory that from_blob was given, which no call writes; "
                            "write there by the pointer, or to a clone()");
}

bool is_cut(const Tensor &tensor) {
  UnderLock lock;
  return static_cast<bool>(current_type(tensor, "x")->part);
}

// What a call makes is a tensor of its own to a gradient, where its value is an operand's, too
// (clone(), a sum over no dims), as in PyTorch.
static Var made_by_call(Var x) {
  return x.grad && x.grad->number < Session::first_history() ? with_own_history(x)
                                                             : made_now(std::move(x));
}

// The value that a write in place under history gives to what had `before`.
static Var written_over(const Var &before, Var value) {
  if (value.grad || !before.grad || before.grad->released)
    return made_by_call(std::move(value));
  // It still requires grad, as in PyTorch: nothing of what it was is left, and its derivative is 0.
  // Not so after a backward, or a loop's steps would each keep the history of all before.
  const Var *of[] = {&before};
  return with_flat_history(value, of);
}

// A view that detach() made has the history of what it is given, and nothing below it has: takes
// that from `value`.
static GradEdge take_history(TensorImpl &detached, Var &value) {
  View &view = *detached.view;
  if (Trace *trace = thread_trace)
    trace->on_own_history(&detached);
  Var before{value.value, view.own.node, view.own.index};
  if (detached.storage()->type->part)
    value = resharded(value, read_view(&detached, "self").value->type);
  value = written_over(before, std::move(value));
  return GradEdge{std::exchange(value.grad, GradRef()), value.grad_index};
}

// A view without history would keep what is written to it from the gradient: of the value, or of
// what the view is of.
static void refuse_lost_history(const View &view, const Var &value) {
  if (!value.grad && !has_history(*view.base.impl()))
    return;
  fail(ErrorKind::kState,
       std::string(value.grad ? "what is written has a history, but self is a view that was made "
                                "under weft::NoGrad, and cannot take it"
                              : "self is a view that was made under weft::NoGrad of a tensor that "
                                "requires grad, whose gradient would not know of the write") +
           "; make the view where history is kept, or write under weft::NoGrad");
}

void write(const Tensor &tensor, Var value) {
  TensorImpl *impl = checked(tensor, "self");
  if (impl->leaf && grad_mode())
    fail(ErrorKind::kState, "a leaf tensor that requires grad cannot be written in place while "
                            "history is kept; do it under weft::NoGrad");
  refuse_lent(*impl->storage());
  value = made_now(owned(std::move(value)));
  if (value.device() != impl->type->device)
    fail(ErrorKind::kDevice, "the value, " + describe(value) + ", lies on " +
                                 device_text(value.device()) + ", what it is written to on " +
                                 device_text(impl->type->device) +
                                 "; copy_ moves it, as to(device) does");
  bool keep_history = grad_mode();
  View *detached = nullptr; // gets this history once the write has succeeded
  GradEdge own;
  // Down the views to the storage: each level's new value comes from what its view was given.
  while (impl->is_view()) {
    View &view = *impl->view;
    if (keep_history && view.history == View::History::kNone)
      refuse_lost_history(view, value);
    if (keep_history && view.history == View::History::kOwn) {
      own = take_history(*impl, value);
      detached = &view;
    }
    keep_history = keep_history && view.history == View::History::kOfBase;
    // Through all views at once, whose steps are fewer together: part of what is expanded is part
    // of what is behind, and a part of a part is one.
    absl::InlinedVector<const View *, 4> views;
    do {
      views.push_back(impl->view.get());
      impl = impl->view->base.impl();
      if (impl->leaf && keep_history)
        fail(ErrorKind::kState, "a view of a leaf tensor that requires grad cannot be written in "
                                "place while history is kept; do it under weft::NoGrad");
    } while (impl->is_view() && !impl->view->is_apart());
    std::vector<ViewStep> together;
    if (views.size() > 1)
      together = steps_of(views);
    const std::vector<ViewStep> &steps = views.size() > 1 ? together : view.steps;
    std::vector<Var> path{read_as_is(views.back()->base, "self")};
    if (!keep_history)
      path[0] = path[0].without_history();
    for (size_t i = 0; i + 1 < steps.size(); ++i)
      path.push_back(apply(steps[i], path.back()));
    for (size_t i = steps.size(); i-- > 0;)
      value = put(steps[i], path[i], value);
  }
  if (impl->start) {
    // What may have to go back to it (a trace, a run that fails) needs it; else nobody will.
    if (thread_trace || value.value->node)
      begin(*impl);
    impl->start = nullptr;
  }
  if (value.value->type != impl->type)
    value = resharded(value, impl->type);
  if (Trace *trace = thread_trace)
    trace->on_write(impl);
  note_write(*impl, value.value.get());
  // Outside of history the edge to what computed the storage stays, as in PyTorch.
  if (keep_history) {
    const GradRef before = impl->frozen ? impl->var.grad : GradRef();
    const uint32_t index = impl->var.grad_index;
    impl->var = written_over(impl->var, std::move(value));
    if (before)
      move_kept_gradient(*impl, before, index);
  } else {
    impl->var.value = std::move(value.value);
  }
  ++impl->version;
  if (detached) {
    detached->own = std::move(own);
    detached->written_at = impl->version;
  }
}

void replace(const Tensor &storage, Var value) {
  static const auto nothing = std::make_shared<const StartingValue>(
      StartingValue{.shift = std::numeric_limits<double>::quiet_NaN()});
  TensorImpl *impl = storage.impl();
  forget_write(*impl);
  impl->start = value ? nullptr : nothing;
  impl->var.value = std::move(value.value);
  ++impl->version;
}

void retype(TensorImpl &storage, const Var &value) {
  forget_write(storage);
  storage.start = nullptr;
  storage.type = value.value->type;
  if (storage.leaf)
    storage.leaf->leaf_type = storage.type;
  storage.var.value = value.value;
  ++storage.version;
}

std::vector<ViewStep> steps_from_storage(const Tensor &tensor) {
  std::vector<const View *> views;
  for (const TensorImpl *impl = tensor.impl(); impl->is_view(); impl = impl->view->base.impl())
    views.push_back(impl->view.get());
  return views.empty() ? std::vector<ViewStep>() : steps_of(views);
}

Tensor wrap_quietly(Var var) {
  return Tensor(new TensorImpl(owned(std::move(var))));
}

Tensor of_its_own(Tensor result, const Tensor &x) {
  return result.impl()->storage() == x.impl()->storage() ? result.clone() : result;
}

Tensor wrap_start(std::shared_ptr<const StartingValue> start, const TypeInfo *type) {
  auto *impl = new TensorImpl(type);
  impl->start = std::move(start);
  return Tensor(impl);
}

Tensor wrap(Var var) {
  Tensor tensor(new TensorImpl(made_by_call(owned(std::move(var)))));
  after_call(tensor);
  return tensor;
}

Tensor make_view(const Tensor &tensor, ViewSteps steps) {
  TensorImpl *from = checked(tensor, "self");
  auto view = std::make_unique<View>();
  auto *impl = new TensorImpl(type_info(from->type->dtype, steps.back().dims, from->type->device));
  Tensor result(impl);
  if (!grad_mode()) {
    // Born while no history was kept: it has none, whatever its base has. What decides whether a
    // write is lost to a gradient is below all views that have the storage's history, so that of
    // views that each require grad in turn the chain stays flat.
    hang_on_storage(*view, tensor, /*on_detached=*/true);
    view->history = View::History::kNone;
  } else if (from->is_view() && from->view->history != View::History::kOwn && !has_history(*from)) {
    view->base = from->view->base;
    view->steps = from->view->steps;
    view->history = from->view->history;
  } else {
    view->base = tensor; // what has a history is what a view is of
  }
  for (ViewStep &step : steps)
    add_step(view->steps, std::move(step), view->base.impl()->type->dims);
  become_view(*impl, std::move(view));
  note_assignable(result);
  return result;
}

Tensor make_detached(const Tensor &tensor) {
  TensorImpl *from = checked(tensor, "self");
  auto view = std::make_unique<View>();
  view->history = View::History::kOwn;
  // History begins anew here: chains of detached handles stay flat.
  hang_on_storage(*view, tensor, /*on_detached=*/false);
  auto *impl = new TensorImpl(from->type);
  become_view(*impl, std::move(view));
  return Tensor(impl);
}

int64_t normalize_dim(int64_t dim, int64_t rank, const char *argument) {
  if (rank == 0)
    fail(ErrorKind::kIndex, std::string(argument) + " is " + std::to_string(dim) +
                                ", but the tensor has no dimensions; unsqueeze(0) gives it one");
  return normalize_dim_or_scalar(dim, rank, argument);
}

int64_t normalize_dim_or_scalar(int64_t dim, int64_t rank, const char *argument) {
  int64_t count = std::max<int64_t>(rank, 1);
  if (dim < -count || dim >= count)
    fail(ErrorKind::kIndex, std::string(argument) + " " + std::to_string(dim) +
                                " is out of range for a tensor of " + std::to_string(rank) +
                                " dimensions: it must be in [" + std::to_string(-count) + ", " +
                                std::to_string(count - 1) + "]");
  return dim < 0 ? dim + count : dim;
}

Shape normalize_dims(const Dims &dims, int64_t rank, const char *argument) {
  Shape result;
  if (dims.all()) {
    for (int64_t i = 0; i < rank; ++i)
      result.push_back(i);
    return result;
  }
  for (int64_t dim : dims.values())
    result.push_back(normalize_dim_or_scalar(dim, rank, "dim"));
  std::sort(result.begin(), result.end());
  if (std::adjacent_find(result.begin(), result.end()) != result.end())
    fail(ErrorKind::kValue,
         std::string(argument) + " " + to_string(dims.values()) + " names a dimension twice");
  if (rank == 0)
    result.clear();
  return result;
}

} // namespace recorder

//===-- The handle ----------------------------------------------------------------------------===//

using recorder::TensorImpl;

Tensor::Tensor(const Tensor &other) : impl_(other.impl_) {
  if (impl_)
    impl_->refs.fetch_add(1, std::memory_order_relaxed);
}

Tensor::~Tensor() {
  if (!impl_ || recorder::leave(*impl_))
    return;
  std::lock_guard<recorder::RecorderMutex> lock(recorder::recorder_mutex());
  // Not by recursion: what a view is of may be a view, and so on.
  for (TensorImpl *impl = impl_; impl && recorder::leave_locked(*impl);) {
    TensorImpl *base = impl->view ? std::exchange(impl->view->base.impl_, nullptr) : nullptr;
    if (base && impl->view->is_apart())
      base->refs_apart.fetch_sub(1, std::memory_order_relaxed);
    delete impl;
    impl = base;
  }
}

Tensor &Tensor::operator=(const Tensor &other) & {
  Tensor copy(other);
  std::swap(impl_, copy.impl_);
  return *this;
}

Tensor &Tensor::operator=(Tensor &&other) & noexcept {
  Tensor taken(std::move(other));
  std::swap(impl_, taken.impl_);
  return *this;
}

// x[i] = y: C++ makes the view on the left last, and gives the assignment no parameter for its
// line, which is the view's.
static Location line_of(const Tensor &target, Location fallback) {
  return target.impl() && target.impl() == recorder::last_assignable.impl
             ? recorder::last_assignable.location
             : fallback;
}

// x[i] = value. Of x.index({i}) with a tensor i it would write a copy that nobody sees again.
static void assign(Tensor &target, const TensorArg &value, Location location) {
  recorder::Session session("operator=", location);
  if (target.impl() && target.impl()->picked)
    recorder::fail(ErrorKind::kState, "index() with tensors gives a copy, so that the assignment "
                                      "would be lost; use index_put_(indices, value)");
  recorder::fill_with(target, value,
                      {"value", "the view on the left", /*drops_leading_ones=*/true});
}
Tensor &Tensor::operator=(const Tensor &other) && {
  assign(*this, other, line_of(*this, Location::current()));
  return *this;
}
Tensor &Tensor::operator=(Tensor &&other) && {
  assign(*this, other, line_of(*this, Location::current()));
  return *this;
}
Tensor &Tensor::operator=(TensorArg value) && {
  assign(*this, value, value.location());
  return *this;
}

} // namespace weft
