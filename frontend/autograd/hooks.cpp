#include "frontend/autograd/hooks.h"

#include <algorithm>

#include "weft/autograd.h"
#include "weft/jit.h"

namespace weft {

using namespace recorder;

namespace {

// Counts the changes of leaves' hooks. A program of a backward has what those made that it was
// recorded with.
const std::shared_ptr<HostState> &changes_of_leaves() {
  static auto *changes = new std::shared_ptr<HostState>(std::make_shared<HostState>(1, 0));
  return *changes;
}

void attach(GradNode &node, GradHook hook) {
  if (!node.hooks)
    node.hooks = std::make_unique<std::vector<GradHook>>();
  node.hooks->push_back(std::move(hook));
}

// The value with its history, which a view has under NoGrad as well.
Var value_with_history(const Tensor &tensor) {
  EnableGrad enabled;
  Var x = read(tensor, "self");
  if (!x.grad)
    fail(ErrorKind::kState, "the tensor has no gradient: neither was it marked with "
                            "requires_grad_(), nor computed, with history, from tensors that were");
  const Trace *trace = active_trace();
  if (trace && x.grad->number < trace->first_gradient)
    fail(ErrorKind::kState, std::string("inside a function of weft::") + trace->what +
                                " only the call that records it would change the hooks of a "
                                "tensor from outside; do it before the call");
  return x;
}

void count_change(const GradNode &node) {
  if (node.is_leaf() && !active_trace())
    ++changes_of_leaves()->front();
}

} // namespace

namespace recorder {

void note_hooks(const GradNode &leaf) {
  const Trace *trace = active_trace();
  if (trace && leaf.number < trace->first_gradient)
    read_state(changes_of_leaves());
}

Var call_hook(const GradHook &hook, const Var &gradient, bool with_history) {
  Tensor given = wrap_quietly(with_history ? gradient : gradient.without_history());
  // What it throws passes as it is.
  Tensor made = [&] {
    // It is the user's: its calls have names and lines of their own.
    Session::Outside outside;
    RecorderMutex::Pause pause(recorder_mutex());
    DerivativeScope mode(with_history);
    return (*hook.function)(given);
  }();
  if (!made.defined())
    return Var();
  Var changed = read(made, "what the function of register_hook returned");
  if (changed.dtype() != gradient.dtype() || changed.dims() != gradient.dims() ||
      changed.device() != gradient.device())
    fail(changed.dims() != gradient.dims()       ? ErrorKind::kShape
         : changed.device() != gradient.device() ? ErrorKind::kDevice
                                                 : ErrorKind::kDType,
         "the function of register_hook returned " + describe(changed) + " for a gradient of " +
             describe(gradient) + ": they must have one dtype and shape, and lie on one device");
  return with_history ? changed : changed.without_history();
}

void move_kept_gradient(const TensorImpl &storage, const GradRef &before, uint32_t index) {
  const Var &now = storage.var;
  if (!before || !before->hooks || !now.grad)
    return;
  auto kept = std::ranges::find_if(*before->hooks, [&](const GradHook &hook) {
    return hook.index == index && hook.kept && hook.kept.get() == storage.frozen.get();
  });
  if (kept == before->hooks->end())
    return;
  GradHook moved = std::move(*kept);
  before->hooks->erase(kept);
  moved.index = now.grad_index;
  attach(*now.grad, std::move(moved));
}

} // namespace recorder

unsigned Tensor::add_hook(std::function<Tensor(const Tensor &)> function, Location location) const {
  Session session("register_hook", location);
  static unsigned hooks = 0;
  if (!function)
    fail(ErrorKind::kValue, "the function is empty");
  Var x = value_with_history(*this);
  note_own_leaf(*x.grad);
  using Function = std::function<Tensor(const Tensor &)>;
  attach(*x.grad, {x.grad_index, ++hooks, x.value->type,
                   std::make_shared<Function>(std::move(function)), GradRef()});
  count_change(*x.grad);
  return hooks;
}

void Tensor::remove_hook(unsigned hook, Location location) const {
  Session session("remove_hook", location);
  Var x = value_with_history(*this);
  std::vector<GradHook> *all = x.grad->hooks.get();
  auto is_it = [&](const GradHook &each) {
    return each.number == hook;
  };
  GradHook removed; // goes last: it may hold tensors
  if (auto found = all ? std::ranges::find_if(*all, is_it) : std::vector<GradHook>::iterator();
      all && found != all->end()) {
    removed = std::move(*found);
    all->erase(found);
    count_change(*x.grad);
  } else if (!x.grad->released) {
    fail(ErrorKind::kValue, "the tensor has no hook " + std::to_string(hook) +
                                ": it was removed, or the tensor was written in place since");
  }
}

void Tensor::retain_grad(Location location) {
  Session session("retain_grad", location);
  Var x = value_with_history(*this);
  if (impl_->leaf || retains_grad())
    return;
  if (!impl_->frozen || impl_->frozen->leaf_type.get() != x.value->type.get())
    impl_->frozen = make_grad_leaf(x.value->type.get());
  attach(*x.grad, {x.grad_index, 0, x.value->type, nullptr, impl_->frozen});
}

bool Tensor::retains_grad(Location location) const {
  Session session("retains_grad", location);
  checked(*this, "self");
  if (impl_->leaf || !impl_->frozen || !requires_grad())
    return false;
  EnableGrad enabled;
  Var x = read(*this, "self");
  const std::vector<GradHook> *all = x.grad ? x.grad->hooks.get() : nullptr;
  return all && std::ranges::any_of(*all, [&](const GradHook &hook) {
           return hook.index == x.grad_index && hook.kept.get() == impl_->frozen.get();
         });
}

} // namespace weft
