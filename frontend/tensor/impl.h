// What a tensor handle points to: a storage, or a view of one. Private to the library.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "frontend/recorder/record/recorder.h"
#include "frontend/recorder/requests/starting_values.h"

namespace weft::recorder {

// One step from a base towards a view. Each kind has an inverse that writes through.
struct ViewStep {
  enum class Kind : uint8_t { kReshape, kTranspose, kBroadcast, kSlice };
  Kind kind;
  Shape dims;                  // of the result
  Shape permutation;           // kTranspose
  Shape starts, limits, steps; // kSlice
};

using ViewSteps = absl::InlinedVector<ViewStep, 2>;

// Counts up. Under the recorder's lock.
inline uint64_t next_birth() {
  static uint64_t births = 0;
  return births++;
}

// What a view has and a storage has not. Under the recorder's lock.
struct View : Pooled<View> {
  // The history of the view's value: the base's, none, or one of its own, which begins when it is
  // written in place under history; the base keeps what it has then.
  enum class History : uint8_t {
    kOfBase,
    kNone, // it was made under NoGrad
    kOwn,  // detach() made it
  };
  // `steps` lead from the base to the view: its storage, or the view that it was taken of, where
  // that one had a history: to a gradient each view is a tensor of its own, and n views of each
  // other are n ops to read; a write goes through all of them at once. Of a view that has no
  // history the storage or what detach() made, of one that has its own always the storage.
  Tensor base;
  std::vector<ViewStep> steps;
  History history = History::kOfBase;
  // It shares the base's value, but not its history.
  bool is_apart() const {
    return history != History::kOfBase;
  }
  GradEdge own; // kOwn: what it was last written by
  // kOwn: the storage's version when it was last written through this view, whose value may have a
  // gradient in a trace then.
  uint64_t written_at = ~uint64_t(0);
  // The view's value when the base had this version. Without a handle of its own, so that a view
  // does not become an output of a slice only because it exists; `pinned` holds it once its memory
  // was handed out, and goes after it.
  ValueRef pinned;
  WeakRef cached;
  GradEdge cached_history;
  GradEdge cached_base; // the base's history that it goes on from
  uint64_t cached_version = 0;
};

// Handles are copied by any thread: refs is atomic. Everything else is touched under the recorder's
// lock.
class TensorImpl : public Pooled<TensorImpl> {
public:
  explicit TensorImpl(const TypeInfo *type) : type(type) {}
  explicit TensorImpl(Var &&value) : type(value.value->type), var(std::move(value)) {}

  std::atomic<uint32_t> refs{1};
  // How many of them are views' that are apart from its history. Once these alone are left, the
  // history goes, and with it the values that it saved: the storage is all that they share. Changed
  // under the recorder's lock; a handle that goes reads it without.
  std::atomic<uint32_t> refs_apart{0};
  bool picked = false; // what index() with tensors made: a copy, into which an assignment would be
                       // lost
  TypeRef type;
  uint64_t born =
      next_birth(); // when, among all handles' targets: a trace tells what was there before it

  // A storage: its current value. It changes with every write.
  Var var;
  uint64_t version = 0;
  // What it held when it was last computed, while `var` is recorded (undo.h); then it is one of the
  // value's writers.
  Before before;
  TensorImpl *previous_writer = nullptr, *next_writer = nullptr;

  // Null for a storage.
  std::unique_ptr<View> view;

  // Of a storage that a module registered.
  Ref<const TensorName> name;

  // Where gradients add up, for a tensor that requires them itself.
  GradRef leaf;
  // What `leaf` was before the mark was taken: the gradient stays. Of a computed value, where its
  // gradient is kept (retain_grad).
  GradRef frozen;

  // What a storage's `var` is to be once somebody reads it; until then `var` is null. A storage
  // that was read or written never has it again.
  std::shared_ptr<const StartingValue> start;

  ~TensorImpl();
  bool is_view() const {
    return view != nullptr;
  }
  // The impl that holds the storage.
  TensorImpl *storage() {
    TensorImpl *impl = this;
    while (impl->is_view())
      impl = impl->view->base.impl();
    return impl;
  }
};

// While it lives, the call makes what it makes on the tensor's device.
class BesideTensor {
public:
  explicit BesideTensor(const Tensor &tensor);
  ~BesideTensor() {
    call_device = before_;
  }
  BesideTensor(const BesideTensor &) = delete;
  BesideTensor &operator=(const BesideTensor &) = delete;

private:
  CallDevice before_;
};

// A new storage with this value, as a handle; then what follows every call: eager evaluation,
// budgets.
Tensor wrap(Var var);
// Without what follows a call.
Tensor wrap_quietly(Var var);
// The result of an op that gives new tensors: a copy where it shares memory with x, as where there
// was nothing to do.
Tensor of_its_own(Tensor result, const Tensor &x);

// Whether it requires grad, or was computed from tensors that do.
bool has_history(const TensorImpl &impl);
// set_requires_grad() was called, which the function that is recorded may not leave as it is.
// changes: the tensor did not require it before, or does so no more.
void note_requires_grad(TensorImpl *tensor, bool changes);
// A new storage that starts from the value.
Tensor wrap_start(std::shared_ptr<const StartingValue> start, const TypeInfo *type);
// Of an undefined tensor, to end an error.
inline constexpr const char *kWhyUndefined = "it was never given a value, or was moved from";
// The value now. Fails with the argument's name when the tensor is undefined.
Var read(const Tensor &tensor, const char *argument);
// The call reads the tensor, or what it makes has something of it (note_device).
TensorImpl *checked(const Tensor &tensor, const char *argument);
// Before the tensor is computed: a view of a recorded storage that nobody else has a handle to
// becomes a storage itself, so that no more of the other is computed, and kept, than the view
// needs. f(x).transpose(0, 1) is stored once.
void take_over_storage(const Tensor &tensor);
// The type of the value now: a view of a tensor of which ranks have parts tells it by its value.
const TypeInfo *current_type(const Tensor &tensor, const char *argument);
// The elements at these places of the value, counted in row-major order. Computes it.
template <typename T>
std::vector<T> elements_at(const Tensor &tensor, std::span<const int64_t> places,
                           Location location);
// Whether the storage lies in memory that a caller of from_blob has lent.
bool is_lent(const TensorImpl &storage);
// Fails where it does: a call is about to write it.
void refuse_lent(const TensorImpl &storage);
// Whether ranks have parts of it. Takes the lock.
bool is_cut(const Tensor &tensor);
// Gives the storage behind the handle a new value of the same type: through the views, if it is
// one.
void write(const Tensor &tensor, Var value);
// What errors call the two of an assignment, and whether its value may have more dims of size 1 in
// front than fit, as PyTorch's x[i] = value has it and copy_ has not.
struct Filling {
  const char *source, *self;
  bool drops_leading_ones = false;
};
// self = source, in self's dtype, on its device, broadcast to its shape.
void fill_with(Tensor &self, const TensorArg &source, const Filling &names);
// x without the dims of size 1 in front that are more than `rank`.
Var without_leading_ones(Var x, int64_t rank);
// Gives a storage a value of its type, or with none its memory back: it reads as NaN until it gets
// one. No failed run gives it back what it held, which is free as soon as nothing reads it.
void replace(const Tensor &storage, Var value);
// Gives a storage a value of another type, which its gradients have from then on.
void retype(TensorImpl &storage, const Var &value);
// A view of the tensor, these steps on.
Tensor make_view(const Tensor &tensor, ViewSteps steps);
Tensor make_detached(const Tensor &tensor);
// What leads from the storage to the tensor, through all views.
std::vector<ViewStep> steps_from_storage(const Tensor &tensor);

// dim of a tensor of this rank, counted from the front: an index into its shape. Fails with the
// argument's name; always for a tensor without dimensions, so that no caller reads a size that is
// not there.
int64_t normalize_dim(int64_t dim, int64_t rank, const char *argument);
// The same, but 0 for dims 0 and -1 of a tensor without dimensions, which is then no index: for
// callers that treat such a tensor by itself.
int64_t normalize_dim_or_scalar(int64_t dim, int64_t rank, const char *argument);
// Sorted, distinct, from the front; all of them for Dims().
Shape normalize_dims(const Dims &dims, int64_t rank, const char *argument);

} // namespace weft::recorder
