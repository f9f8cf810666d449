#include "frontend/programs/trace.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "frontend/recorder/record/emit.h"
#include "frontend/recorder/requests/requests.h"
#include "frontend/recorder/slices/claims.h"
#include "runtime/core/ends.h"
#include "llvm/Support/SaveAndRestore.h"

namespace weft::recorder {

// While it lives, this thread records a function, and it sees every storage and gradient that the
// function touches; afterwards each of them is what it was.
struct FunctionTrace : Trace {
  Recording &recording;
  uint64_t first_storage = 0; // the function's own are born from it on
  uint64_t first_of_arguments = 0, behind_arguments = 0; // GradNode::number of their leaves
  std::unordered_map<TensorImpl *, size_t> storages;
  std::vector<Var> storages_before;
  std::vector<bool> written;
  std::unordered_map<GradNode *, size_t> gradients;
  std::vector<Tensor> gradients_before;
  std::unordered_map<TensorImpl *, std::pair<Tensor, GradEdge>> own_histories; // before
  std::unordered_map<const HostState *, size_t> states;
  struct LeafBefore {
    Tensor tensor;
    GradRef leaf, frozen;
  };
  std::unordered_map<TensorImpl *, LeafBefore> leaves;

  FunctionTrace(const char *what, Location line, Recording &recording)
      : Trace(what, line), recording(recording) {
    UnderLock lock;
    static uint32_t traces = 0;
    tracer = recording.tracer.number = ++traces;
    recording.first = recorder().next_number;
    first_storage = next_birth();
    first_gradient = recorder().next_grad_number;
    thread_trace = this;
  }
  ~FunctionTrace() {
    thread_trace = nullptr;
    UnderLock lock;
    put_back();
    gradients_before.clear();
    own_histories.clear();
    leaves.clear();
    without_gradient.clear();
  }

  // What another thread records meanwhile is none of the function's: it is computed, and read as
  // what was there before.
  bool is_own(const TensorImpl &storage) const {
    const Value *value = storage.var.value.get();
    return storage.born >= first_storage &&
           !(value && value->node && value->node->tracer != tracer);
  }

  std::optional<size_t> touch(TensorImpl *storage) {
    auto known = storages.find(storage);
    if (known != storages.end())
      return known->second;
    if (is_own(*storage))
      return std::nullopt;
    // What was recorded before is not part of the function. This comes first: where it fails and
    // the function goes on, nothing has been noted. It gives the lock up: another thread may have
    // recorded a write meanwhile, and only what is computed has what a stand-in takes.
    storage->refs.fetch_add(1, std::memory_order_relaxed);
    Tensor handle(storage); // what is read through a view may have no other
    while (storage->var.value->node) {
      ValueRef held = storage->var.value;
      Value *value = held.get();
      llvm::SaveAndRestore evaluates(evaluating, true);
      submit({&value, 1}, {CutReason::kJit, Session::location()});
    }
    size_t touching = storages.emplace(storage, recording.storages.size()).first->second;
    TouchedStorage &touched = recording.storages.emplace_back();
    touched.tensor = std::move(handle);
    touched.requires_grad = static_cast<bool>(storage->leaf);
    storages_before.push_back(storage->var);
    written.push_back(false);
    touched.stand_in = storage->var.value = stand_in_for(storage->var.value.get());
    recording.storage_of.emplace(touched.stand_in.get(), touching);
    ++storage->version; // values of views that were computed before are none of the stand-in's
    return touching;
  }

  void on_read(TensorImpl *storage) override {
    touch(storage);
  }
  void on_write(TensorImpl *storage) override {
    if (std::optional<size_t> touched = touch(storage))
      written[*touched] = true;
  }
  void on_own_history(TensorImpl *detached) override {
    if (detached->born >= first_storage || own_histories.count(detached))
      return;
    detached->refs.fetch_add(1, std::memory_order_relaxed);
    own_histories.emplace(detached, std::pair(Tensor(detached), detached->view->own));
  }
  void on_requires_grad(TensorImpl *tensor, bool changes) override {
    if (tensor->born >= first_storage)
      return;
    touch(tensor->storage());
    // Of a view no replay asks whether it requires grad itself.
    if (!changes && !tensor->is_view())
      return;
    recording.changes_leaves = true;
    tensor->refs.fetch_add(1, std::memory_order_relaxed);
    leaves.try_emplace(tensor, LeafBefore{Tensor(tensor), tensor->leaf, tensor->frozen});
  }
  void on_grad(GradNode *leaf) override {
    if (leaf->number >= first_gradient) {
      recording.reads_argument_gradient |=
          leaf->number >= first_of_arguments && leaf->number < behind_arguments;
      return;
    }
    if (!gradients.try_emplace(leaf, recording.gradients.size()).second)
      return;
    TouchedGradient &touched = recording.gradients.emplace_back();
    touched.leaf = GradRef(leaf);
    gradients_before.push_back(leaf->grad);
  }

  // A leaf with the same memory, and no other handle.
  static ValueRef stand_in_for(const Value *leaf) {
    auto *made = new Value(leaf->type);
    if ((made->cell = leaf->cell))
      ++made->cell->owners;
    made->is_scalar = leaf->is_scalar;
    made->bits = leaf->bits;
    made->evaluation = leaf->evaluation;
    return ValueRef(made);
  }

  // Stand for those of a call.
  std::vector<Tensor> arguments(const std::vector<ArgumentType> &types) {
    UnderLock lock;
    std::vector<Tensor> made;
    first_of_arguments = recorder().next_grad_number;
    for (const ArgumentType &type : types) {
      // A leaf without a buffer: nobody can read it, since nothing is evaluated while tracing.
      Var placeholder = make_leaf(type.type, nullptr, true);
      made.push_back(wrap_quietly(placeholder));
      made.back().impl()->born = first_storage; // the function's own
      if (type.requires_grad)
        placeholder.grad = made.back().impl()->leaf = make_grad_leaf(type.type);
      placeholder.value->of_input = has_derivatives;
      recording.placeholders.push_back(std::move(placeholder));
    }
    behind_arguments = recorder().next_grad_number;
    return made;
  }

  // Notes what the function left: new values of storages and gradients.
  void finish() {
    for (size_t i = 0; i < storages_before.size(); ++i) {
      TouchedStorage &touched = recording.storages[i];
      const Var &now = touched.tensor.impl()->var;
      if (!written[i] || now.value.get() == touched.stand_in.get())
        continue;
      recording.note_history(now.grad, storages_before[i].grad.get());
      touched.written = now.without_history();
    }
    for (const auto &[detached, before] : own_histories)
      recording.note_history(detached->view->own.node, before.second.node.get());
    for (size_t i = 0; i < gradients_before.size(); ++i) {
      TouchedGradient &touched = recording.gradients[i];
      // Held: to read it may give the lock up, and another thread may drop it then.
      const Tensor now = touched.leaf->grad;
      const Tensor &then = gradients_before[i];
      if (then.defined())
        if (auto it = storages.find(then.impl()->storage()); it != storages.end())
          recording.storages[it->second].gradient_of = touched.leaf;
      if (now.impl() == then.impl())
        continue;
      touched.after = now.defined() ? TouchedGradient::After::kNew : TouchedGradient::After::kNone;
      if (!now.defined())
        continue;
      Var gradient = read(now, "grad");
      recording.note_history(gradient.grad);
      touched.value = gradient.without_history();
    }
  }

  TouchedState &touch(const std::shared_ptr<HostState> &state) {
    auto [known, fresh] = states.try_emplace(state.get(), recording.states.size());
    if (fresh)
      recording.states.push_back({state, *state, {}});
    return recording.states[known->second];
  }

  void put_back() {
    for (TouchedState &touched : recording.states)
      touched.after = std::exchange(*touched.state, touched.before);
    for (size_t i = 0; i < storages_before.size(); ++i) {
      TensorImpl *storage = recording.storages[i].tensor.impl();
      // What another thread has written meanwhile stays.
      if (!written[i] && storage->var.value.get() != recording.storages[i].stand_in.get())
        continue;
      forget_write(*storage);
      storage->var = std::move(storages_before[i]);
      ++storage->version; // views that saw a traced value must not come back
    }
    for (auto &[detached, before] : own_histories)
      detached->view->own = before.second;
    for (auto &[tensor, before] : leaves) {
      tensor->leaf = std::move(before.leaf);
      tensor->frozen = std::move(before.frozen);
    }
    for (size_t i = 0; i < gradients_before.size(); ++i)
      recording.gradients[i].leaf->grad = gradients_before[i];
  }
};

namespace {

// Empty, or what makes the slice one of several devices.
std::string why_no_program(const Slice &slice) {
  if (!slice.is_mixed && !slice.is_exchange)
    return "";
  for (const Node *node : slice.nodes) {
    std::string there = device_text(node->signature->device), place = node->line->place();
    if (node->signature->exchange == Exchange::kTransfer) {
      const Value *moved = node->operands[0];
      // No call of the user's made the transfer: the tensor goes along with the others.
      if (!moved->node && goes_along(*moved->type))
        return "the function uses " + placed(*moved->type) + " with tensors on " + there + " at " +
               place + ": move it there before, with to(\"" + there + "\")";
      return "the function moves a tensor from " + device_text(node->operands[0]->type->device) +
             " to " + there + " at " + place;
    }
    if (node->signature->device != slice.device)
      return "the function computes on " + device_text(slice.device) + " and, at " + place +
             ", on " + there;
  }
  return "";
}

// Whether a handle from outside, through which the function read a storage, refers to another one
// now: nobody but the recording has the storage.
bool has_lost_a_handle(const Recording &recording) {
  return std::any_of(recording.storages.begin(), recording.storages.end(),
                     [](const TouchedStorage &touched) {
                       return touched.tensor.impl()->refs.load(std::memory_order_relaxed) == 1;
                     });
}

// The slice of all that the function returned and wrote.
void collect_slice(Recording &recording, const std::string &exchange) {
  std::vector<Value *> roots;
  std::unordered_map<Value *, uint32_t> held; // by the recording, so often
  auto root = [&](const Var &x) {
    if (!x)
      return;
    roots.push_back(x.value.get());
    ++held[x.value.get()];
  };
  for (const Var &x : recording.outputs)
    root(x);
  for (const Var &x : recording.written_arguments)
    root(x);
  for (const TouchedStorage &touched : recording.storages)
    root(touched.written);
  for (const TouchedGradient &touched : recording.gradients)
    root(touched.value);
  if (!collect(roots, recording.slice, recording.tracer.number))
    fail(ErrorKind::kState, "the function reads a value that another thread records meanwhile: "
                            "compute it there, with eval(), or before the call");
  // Also where nothing that it returns comes of it: the other ranks wait for it.
  recording.several_devices = exchange.empty()
                                  ? why_no_program(recording.slice)
                                  : "the function exchanges with other ranks, or computes on "
                                    "parts of tensors, at " +
                                        exchange;
  bool lost_a_handle = has_lost_a_handle(recording);
  for (Value *output : recording.slice.outputs) {
    auto own = held.find(output);
    // A result may be left in a handle of the caller's as well, unless that had what the function
    // reads: each call would begin with what it had at the first one.
    if (own != held.end() && (output->handles <= own->second || !lost_a_handle))
      continue;
    std::string instead = own == held.end() ? "return the tensor, or write it in place with copy_"
                                            : "write it in place with copy_, h.copy_(f(h))";
    fail(ErrorKind::kState,
         "a tensor that the function computed (" + describe(*output->type) + ", at " +
             output->node->line->place() +
             ") is still referred to from outside: assigning to a handle that was born before "
             "the recording is not possible; " +
             instead);
  }
}

} // namespace

Recording::~Recording() {
  if (tracer.number == 0)
    return;
  UnderLock lock;
  slice = Slice();
  placeholders.clear();
  written_arguments.clear();
  outputs.clear();
  storages.clear();
  gradients.clear();
  // A handle of the user's may have been given a result: it keeps an op that nobody computes.
  for (Node *node = recorder().last; node && node->number >= first; node = node->previous)
    if (node->tracer == tracer.number)
      node->tracer = kEnded;
  end_claim(); // threads may wait for one of these ops to go
}

// A history that cannot be walked again, since a backward has released it, is none.
void Recording::note_history(const GradRef &grad, const GradNode *known) {
  if (!grad || grad.get() == known || has_history)
    return;
  std::vector<GradNode *> reached{grad.get()};
  std::unordered_set<GradNode *> seen{grad.get()};
  for (size_t i = 0; i < reached.size(); ++i) {
    if (reached[i]->released)
      return;
    for (const GradEdge &edge : reached[i]->edges)
      if (edge.node && seen.insert(edge.node.get()).second)
        reached.push_back(edge.node.get());
  }
  has_history = true;
}

void read_state(const std::shared_ptr<HostState> &state) {
  if (auto *trace = static_cast<FunctionTrace *>(thread_trace)) {
    TouchedState &touched = trace->touch(state);
    touched.is_read = touched.is_read || *state == touched.before;
  }
}

void write_state(const std::shared_ptr<HostState> &state) {
  if (auto *trace = static_cast<FunctionTrace *>(thread_trace))
    trace->touch(state);
}

void set_state(const std::shared_ptr<HostState> &state, const HostState &value) {
  if (auto *trace = static_cast<FunctionTrace *>(thread_trace))
    trace->touch(state).is_set = true;
  // In place: another thread may read it, which stays a race for one word.
  std::ranges::copy(value, state->begin());
}

void before_program(const std::function<void()> &write) {
  Trace *trace = thread_trace;
  if (!trace || std::string_view(trace->what) != "trace")
    return write();
  llvm::SaveAndRestore evaluates(trace->evaluating, true);
  write();
}

void wait_for_a_recording(Location location) {
  // In a forked child the end of another thread's recording never comes.
  if (const char *why = runtime::why_not_compute())
    fail_at(location, ErrorKind::kState, why);
  wait_for_a_claim();
}

Recording record(const char *what, const ErasedFunction &function,
                 const std::vector<ArgumentType> &types, Location location, bool many_sizes) {
  if (thread_trace)
    throw Error(ErrorKind::kState,
                std::string("weft::") + what +
                    " is called inside another traced function; call the plain function there",
                location);
  Recording recording;
  std::string exchange;
  {
    FunctionTrace trace(what, location, recording);
    trace.many_sizes = many_sizes;
    trace.has_derivatives = std::string_view(what) == "trace"; // jit's program has no other user
    std::vector<Tensor> arguments = trace.arguments(types);
    std::vector<Tensor> outputs;
    {
      Session::Outside outside;
      ErasedResult result = function(arguments);
      outputs = std::move(result.tensors);
      recording.result_shape = std::move(result.shape);
    }
    UnderLock lock;
    for (const Tensor &output : outputs) {
      Session session(what, location);
      Var x = output.defined() ? read(output, "result") : Var();
      recording.note_history(x.grad);
      recording.outputs.push_back(x && x.value->no_grad ? without_gradient(x)
                                                        : x.without_history());
    }
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Var &now = arguments[i].impl()->var;
      bool written = now.value.get() != recording.placeholders[i].value.get();
      if (written)
        recording.note_history(now.grad);
      recording.written_arguments.push_back(written ? now.without_history() : Var());
    }
    trace.finish();
    exchange = std::move(trace.exchange);
    // Gradients of stand-ins: a caller's argument has none of them.
    for (const Var &placeholder : recording.placeholders)
      if (placeholder.grad)
        placeholder.grad->grad = Tensor();
    outputs.clear();
    arguments.clear();
  }
  UnderLock lock;
  Session session(what, location);
  collect_slice(recording, exchange);
  return recording;
}

} // namespace weft::recorder
