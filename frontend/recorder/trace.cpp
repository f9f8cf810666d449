#include "frontend/recorder/trace.h"

#include "frontend/recorder/state_api.h"

namespace weft::recorder {

// Sees every storage that the function touches, and puts back what it wrote.
struct Trace : TraceHooks {
  struct Touched {
    Tensor tensor; // keeps the storage
    Var before;
    bool written = false;
  };
  struct TouchedGrad {
    GradRef leaf;
    Tensor before;
  };

  const char *what;
  Location location;
  uint64_t storages_before, grads_before;
  std::unordered_map<TensorImpl *, Touched> storages;
  std::vector<TensorImpl *>
      order; // of the first touch: the order of inputs and outputs must not depend on addresses
  std::unordered_map<GradNode *, TouchedGrad> grads;
  std::vector<GradNode *> grad_order;
  bool evaluating = false;

  Touched *touch(TensorImpl *storage) {
    if (storage->born >= storages_before)
      return nullptr;
    auto [it, fresh] = storages.try_emplace(storage);
    if (fresh) {
      // What was recorded before is not part of the function.
      if (storage->var.value->node) {
        ValueRef held = storage->var.value;
        Value *value = held.get();
        evaluating = true;
        submit({&value, 1}, {CutReason::kJit, location});
        evaluating = false;
      }
      storage->refs.fetch_add(1, std::memory_order_relaxed);
      it->second.tensor = Tensor(storage);
      it->second.before = storage->var;
      order.push_back(storage);
    }
    return &it->second;
  }
  void on_read(TensorImpl *storage) override {
    touch(storage);
  }
  void on_write(TensorImpl *storage) override {
    if (Touched *touched = touch(storage))
      touched->written = true;
  }
  void on_grad(GradNode *leaf) override {
    if (leaf->number >= grads_before)
      return;
    auto [it, fresh] = grads.try_emplace(leaf);
    if (!fresh)
      return;
    it->second.leaf = GradRef(leaf);
    it->second.before = leaf->grad;
    grad_order.push_back(leaf);
  }
};

namespace {

thread_local Trace *current_trace = nullptr;

// While it lives, this thread records for the trace; afterwards every storage and gradient is what
// it was.
class Tracing {
public:
  explicit Tracing(Trace &trace) : trace_(trace) {
    current_trace = &trace;
    trace_hooks() = &trace;
  }
  ~Tracing() {
    current_trace = nullptr;
    trace_hooks() = nullptr;
    std::lock_guard<RecorderMutex> lock(recorder_mutex());
    for (auto &[storage, touched] : trace_.storages)
      if (touched.written) {
        forget_write(*storage);
        storage->var = touched.before;
        ++storage->version; // caches of views that saw the traced value must not come back
      }
    for (auto &[leaf, touched] : trace_.grads)
      leaf->grad = touched.before;
  }

private:
  Trace &trace_;
};

} // namespace

Trace *active_trace() {
  return current_trace && !current_trace->evaluating ? current_trace : nullptr;
}

void refuse_evaluation(const Trace &trace, const EvaluateRequest &request) {
  throw Error(ErrorKind::kState,
              std::string("a value is asked for (") + name(request.reason) +
                  ") while weft::" + trace.what +
                  " records the function: it has none yet; return the tensor instead, or ask "
                  "before the call",
              CallerScope::resolve(request.location));
}

TraceResult record_trace(const char *what, const ErasedFunction &function,
                         const std::vector<const TypeInfo *> &inputs, bool effects,
                         Location location) {
  if (current_trace)
    throw Error(ErrorKind::kState,
                std::string("weft::") + what +
                    " is called inside another traced function; call the plain function there",
                location);
  TraceResult result;
  std::vector<Tensor> arguments;
  Trace trace;
  trace.what = what;
  trace.location = location;
  {
    std::lock_guard<RecorderMutex> lock(recorder_mutex());
    for (const TypeInfo *type : inputs) {
      // A leaf without a buffer: nobody can read it, since nothing is evaluated while tracing.
      result.placeholders.push_back(make_leaf(type, nullptr, true));
      arguments.push_back(wrap_quietly(result.placeholders.back()));
    }
    trace.storages_before = next_birth();
    trace.grads_before = recorder().next_grad_number;
    for (Tensor &argument : arguments)
      argument.impl()->born = trace.storages_before; // the function's own
  }
  {
    Tracing tracing(trace);
    std::vector<Tensor> outputs;
    {
      Session::Outside outside;
      outputs = function(arguments);
    }
    std::lock_guard<RecorderMutex> lock(recorder_mutex());
    for (const Tensor &output : outputs) {
      Session session(what, location);
      result.outputs.push_back(read(output, "result").without_history());
    }
    for (GradNode *leaf : trace.grad_order)
      if (effects && leaf->grad.defined() && leaf->grad.impl() != trace.grads[leaf].before.impl())
        result.gradients.emplace_back(GradRef(leaf), read(leaf->grad, "grad").without_history());
    for (TensorImpl *storage : trace.order) {
      Trace::Touched &touched = trace.storages[storage];
      if (effects && touched.written)
        result.written.emplace_back(touched.tensor, storage->var.without_history());
      result.captured.try_emplace(touched.before.value.get(), touched.tensor);
      result.held.push_back(touched.before.value);
    }
  }
  arguments.clear();
  std::lock_guard<RecorderMutex> lock(recorder_mutex());
  Session session(what, location);
  std::vector<Value *> roots;
  std::unordered_map<Value *, bool> known;
  auto root = [&](const Var &x) {
    roots.push_back(x.value.get());
    known[x.value.get()] = true;
  };
  for (const Var &x : result.outputs)
    root(x);
  for (auto &[tensor, x] : result.written)
    root(x);
  for (auto &[leaf, x] : result.gradients)
    root(x);
  collect(roots, result.slice);
  for (Value *output : result.slice.outputs)
    if (!known.count(output))
      fail(ErrorKind::kState, "a tensor that the function computed (" + describe(*output->type) +
                                  ", at " + output->node->line->file + ":" +
                                  std::to_string(output->node->line->line) +
                                  ") is still referred to from outside: assigning to a handle that "
                                  "was born before the recording is not "
                                  "possible; return the tensor, or write it in place with copy_");
  return result;
}

} // namespace weft::recorder
