#include "frontend/programs/bound_program.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <unordered_set>

#include "frontend/programs/trace.h"
#include "frontend/recorder/requests/room.h"
#include "frontend/recorder/runs/invocation.h"
#include "frontend/recorder/runs/undo.h"
#include "runtime/profile/profile.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace weft::recorder {
namespace {

// Of a source that is a storage, the call's arguments apart; else null.
TensorImpl *storage_of(const Source &source) {
  if (source.kind == Source::Kind::kGradient)
    return source.leaf->grad.impl()->storage();
  return source.kind == Source::Kind::kStorage ? source.storage.impl() : nullptr;
}

// Calls f with each target of the program, those of passed values included.
template <typename F> void each_target(const BoundProgram &bound, F f) {
  for (const Target &target : bound.targets)
    f(target);
  for (const auto &[source, target] : bound.passed)
    f(target);
}

// Whether a call leaves anything but its results.
bool writes(const BoundProgram &bound) {
  bool found = !bound.dropped_gradients.empty() || !bound.states.empty();
  each_target(bound, [&](const Target &target) {
    found = found || !target.arguments.empty() || !target.storages.empty() ||
            !target.gradients.empty() || !target.new_gradients.empty();
  });
  return found;
}

// A call while it is made, under the recorder's lock. What it reads is of one moment, and where it
// writes, it writes at that moment as well: from the settle() that is true to the results' places
// the lock is not given up. Else another thread's write in between would be lost, or be seen in
// part.
class Call {
public:
  Call(const BoundProgram &bound, const std::vector<Tensor> &arguments, Location location)
      : bound_(bound), arguments_(arguments), location_(location), inputs_(arguments.size()) {}

  // Reads all that the call needs, and computes what is recorded: that takes its turn before this
  // program. False where the lock was given up and others may have written meanwhile what was read:
  // the caller asks again.
  bool settle() {
    if (read_arguments())
      return false;
    leaves_.clear();
    passed_.clear();
    for (const Source &source : bound_.sources)
      leaves_.push_back(value_of(source));
    for (const auto &[source, target] : bound_.passed)
      passed_.push_back(owned(Var{value_of(source)}));
    if (meets_recording() || (compute() && writes(bound_)))
      return false;
    // Values that are held stay what they are, whatever their storages are given: a call that only
    // reads goes on with them, however fast another thread writes.
    each_value([&](Value &leaf) { check_leaf(&leaf, location_); });
    return !wait_to_copy();
  }

  // Nothing where memory ran out and some may be had: every tensor keeps its value.
  std::optional<std::vector<Tensor>> run(Attempt attempt) {
    results_.resize(bound_.outputs);
    // Since an earlier attempt records may have gone, and others may stand where they stood.
    under_way_ = nullptr;
    memory_under_way_.clear();
    if (bound_.program && !launch(attempt)) {
      invocation_.reset(); // with the memory that it took already
      return std::nullopt;
    }
    for (size_t i = 0; i < passed_.size(); ++i) {
      const Target &target = bound_.passed[i].second;
      hand_out(target, passed_[i]);
      for (TensorImpl *storage : written_by(target))
        give(*storage, passed_[i].value);
    }
    for (const GradRef &leaf : bound_.dropped_gradients)
      leaf->grad = Tensor();
    change_states();
    leaves_.clear(); // before the run (Invocation::finish)
    if (invocation_)
      invocation_->finish();
    return std::move(results_);
  }

private:
  // Whether one of them had to be made, for which the lock was given up. What was read before and
  // is its tensor's value still is kept: a view would be recorded again.
  bool read_arguments() {
    bool made = false;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const TensorImpl *storage = arguments_[i].impl()->storage();
      Input &input = inputs_[i];
      if (input.value && input.version == storage->version)
        continue;
      made = made || storage->start;
      input.value = read(arguments_[i], "argument").value;
      input.version = storage->version;
    }
    return made;
  }

  ValueRef value_of(const Source &source) const {
    if (source.kind == Source::Kind::kArgument)
      return inputs_[source.argument].value;
    if (TensorImpl *storage = storage_of(source))
      return storage->var.value;
    return source.constant.value;
  }

  // f(value), as often as this call holds it.
  template <typename F> void each_value(F f) const {
    for (const Input &input : inputs_)
      f(*input.value);
    for (const ValueRef &leaf : leaves_)
      f(*leaf);
    for (const Var &each : passed_)
      f(*each.value);
  }

  // Whether another thread records a function that writes what is read, which is no value until it
  // ends: it was waited for, and the lock given up.
  bool meets_recording() {
    bool meets = false;
    each_value([&](const Value &value) {
      meets = meets || (value.node && value.node->tracer && value.node->tracer != kEnded);
    });
    if (meets)
      wait_for_a_recording(location_);
    return meets;
  }

  // Whether anything had to be, for which the lock was given up.
  bool compute() {
    std::vector<Value *> roots;
    each_value([&](Value &value) {
      if (value.node)
        roots.push_back(&value);
    });
    if (roots.empty())
      return false;
    submit(roots, {CutReason::kJit, location_});
    return true;
  }

  // What is written in a copy must be in memory before anything is bound. Whether there was
  // something to wait for, for which the lock was given up.
  bool wait_to_copy() {
    ValueRef under_way;
    for (size_t i = 0; i < leaves_.size() && !under_way; ++i)
      if (const Source &source = bound_.sources[i];
          source.written && Invocation::must_wait(*leaves_[i], handles_of(source)))
        under_way = leaves_[i];
    if (!under_way)
      return false;
    leaves_.clear(); // others need not copy because of this call
    passed_.clear();
    wait_for(under_way.get(), location_);
    return true;
  }

  // Handles to what the source holds that are known: the storage's, where no other tensor sees
  // parts of it, and this call's.
  uint32_t handles_of(const Source &source) const {
    bool is_argument = source.kind == Source::Kind::kArgument;
    bool sole = is_argument ? !arguments_[source.argument].impl()->is_view()
                            : storage_of(source) != nullptr;
    return (sole ? 2 : 0) + is_argument;
  }

  bool launch(Attempt attempt) {
    Invocation &invocation = invocation_.emplace(bound_);
    for (size_t i = 0; i < leaves_.size(); ++i) {
      const Source &source = bound_.sources[i];
      if (source.written)
        invocation.donate(leaves_[i].get(), handles_of(source));
      else
        invocation.bind(leaves_[i].get());
    }
    const std::shared_ptr<EvaluationRecord> &record = invocation.record();
    std::unordered_map<int64_t, std::vector<Value *>> spare; // gradients that go, by bytes
    for (size_t i = 0; i < bound_.targets.size(); ++i) {
      const Target &target = bound_.targets[i];
      if (invocation.may_fail())
        for (TensorImpl *storage : written_by(target))
          prepare_undo(*storage, *record);
      for (const GradRef &leaf : target.new_gradients)
        if (Value *old = replaced(*leaf); old && !invocation.reuse(i, old))
          spare[target.type->bytes].push_back(old);
    }
    // The plan has put the new ones into memory of the call's, such as a weight's, so that what is
    // as large lies elsewhere: the weight's new value.
    for (size_t i = 0; !spare.empty() && i < bound_.targets.size(); ++i)
      if (auto found = spare.find(bound_.targets[i].type->bytes); found != spare.end()) {
        std::vector<Value *> &left = found->second;
        if (invocation.reuse(i, left.back()))
          left.pop_back();
        if (left.empty())
          spare.erase(found);
      }
    if (!invocation.launch(attempt, location_, Guard::kLock))
      return false;
    std::vector<Var> values; // live as long as the invocation
    size_t next = 0;         // of record->undo
    for (size_t i = 0; i < bound_.targets.size(); ++i) {
      const Target &target = bound_.targets[i];
      Var value{ValueRef(new Value(target.type))};
      invocation.publish(i, value.value.get());
      values.push_back(value);
      for (TensorImpl *storage : written_by(target)) {
        give(*storage, invocation.may_fail() ? settle_write(value.value.get(), record->undo[next++])
                                             : value.value);
      }
      hand_out(target, value);
    }
    return true;
  }

  // The gradient that a new one replaces, if nobody else refers to it, nor to its memory.
  Value *replaced(const GradNode &leaf) {
    TensorImpl *grad = leaf.grad.impl();
    if (!grad || grad->is_view() || grad->refs.load(std::memory_order_relaxed) != 1)
      return nullptr;
    Value *value = grad->var.value.get();
    bool sole = value->cell && value->handles == 1 && value->weak == 0;
    return sole && !goes_back(*value) ? value : nullptr;
  }

  // Whether the value's memory is, or may become, that of a storage again: a program may put a
  // gradient where it was given a state to write, which goes back there if the run fails.
  bool goes_back(const Value &value) {
    const EvaluationRecord *record = value.evaluation.get();
    if (!record || !record->may_fail || record->state() == RunState::kDone)
      return false;
    if (record->failed())
      return true;
    if (record != under_way_) {
      under_way_ = record;
      memory_under_way_.clear();
      for (const runtime::Buffer *memory : record->kept_memory())
        memory_under_way_.insert(memory);
    }
    return memory_under_way_.contains(value.cell->buffer.get());
  }

  // What the function does to C++ objects, which its program does not.
  void change_states() {
    for (const TouchedState &touched : bound_.states)
      for (size_t i = 0; i < touched.after.size(); ++i)
        if (touched.is_set || touched.after[i] != touched.before[i])
          (*touched.state)[i] = touched.after[i];
  }

  static void give(TensorImpl &storage, ValueRef value) {
    forget_write(storage);
    storage.var.value = std::move(value);
    ++storage.version;
  }

  // To all that is no storage to be written.
  void hand_out(const Target &target, const Var &value) {
    for (uint32_t output : target.outputs)
      results_[output] = wrap_quietly(value);
    for (const GradRef &leaf : target.new_gradients)
      leaf->grad = wrap_quietly(value);
    // Through a view the storage behind it gets a part of its value.
    for (uint32_t argument : target.arguments)
      if (arguments_[argument].impl()->is_view())
        write(arguments_[argument], value);
  }

  // Storages that get the whole result.
  std::vector<TensorImpl *> written_by(const Target &target) const {
    std::vector<TensorImpl *> storages;
    for (const Tensor &storage : target.storages)
      storages.push_back(storage.impl());
    for (const GradRef &leaf : target.gradients)
      storages.push_back(leaf->grad.impl()->storage());
    for (uint32_t argument : target.arguments)
      if (TensorImpl *impl = arguments_[argument].impl(); !impl->is_view())
        storages.push_back(impl);
    return storages;
  }

  const BoundProgram &bound_;
  const std::vector<Tensor> &arguments_;
  Location location_;
  struct Input {
    ValueRef value;       // of the argument, once it was read
    uint64_t version = 0; // its storage's, then
  };
  std::vector<Input> inputs_;
  std::vector<ValueRef> leaves_; // of the sources
  std::vector<Var> passed_;
  std::vector<Tensor> results_;
  std::optional<Invocation> invocation_;
  // What goes_back() looked at last, and what that run's storages get back if it fails.
  const EvaluationRecord *under_way_ = nullptr;
  std::unordered_set<const runtime::Buffer *> memory_under_way_;
};

// Of leaves of one type.
bool same_bytes(Value *a, Value *b, Location location) {
  if (a == b)
    return true;
  if (a->is_scalar || b->is_scalar)
    return a->is_scalar && b->is_scalar && a->bits == b->bits;
  std::vector<char> room_of_a, room_of_b;
  return std::memcmp(host_bytes(a, location, room_of_a), host_bytes(b, location, room_of_b),
                     static_cast<size_t>(a->type->bytes)) == 0;
}

// What one source reads otherwise than the other; null for nothing.
const char *difference(const Source &then, const Source &now, Location location) {
  if (then.kind != now.kind || then.argument != now.argument)
    return "other tensors";
  if (then.storage.defined() != now.storage.defined() ||
      (then.storage.defined() && then.storage.impl() != now.storage.impl()) ||
      then.leaf.get() != now.leaf.get())
    return "another captured tensor";
  if (then.kind != Source::Kind::kConstant)
    return nullptr;
  Value *before = then.constant.value.get(), *after = now.constant.value.get();
  if (before->type != after->type || !same_bytes(before, after, location))
    return before->is_scalar ? "another number" : "other data that it makes a tensor of";
  return nullptr;
}

// Whether two slices of one value share no element, since they share no index of some dim.
bool share_nothing(const ViewStep &a, const ViewStep &b) {
  for (size_t d = 0; d < a.dims.size(); ++d) {
    if (a.dims[d] == 0 || b.dims[d] == 0)
      return true;
    int64_t a_last = a.starts[d] + (a.dims[d] - 1) * a.steps[d],
            b_last = b.starts[d] + (b.dims[d] - 1) * b.steps[d];
    if (std::max(a.starts[d], a_last) < std::min(b.starts[d], b_last) ||
        std::max(b.starts[d], b_last) < std::min(a.starts[d], a_last) ||
        (a.starts[d] - b.starts[d]) % std::gcd(a.steps[d], b.steps[d]) != 0)
      return true;
  }
  return false;
}

// Whether two tensors of one storage are known to share no element: their views begin alike and
// go on with slices that share none.
bool are_apart(const Tensor &a, const Tensor &b) {
  std::vector<ViewStep> ours = steps_from_storage(a), theirs = steps_from_storage(b);
  for (size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    const ViewStep &one = ours[i], &other = theirs[i];
    if (one.kind != other.kind)
      return false;
    if (one.kind == ViewStep::Kind::kSlice && share_nothing(one, other))
      return true;
    if (one.dims != other.dims || one.permutation != other.permutation ||
        one.starts != other.starts || one.steps != other.steps)
      return false;
  }
  return false;
}

} // namespace

// One walk of all that the recording left.
BoundProgram bind_recording(const Recording &recording) {
  BoundProgram bound;
  bound.checks = recording.slice.checks;
  bound.device = recording.slice.device;
  bound.outputs = static_cast<uint32_t>(recording.outputs.size());
  std::unordered_map<Value *, uint32_t> argument_of;
  for (uint32_t i = 0; i < recording.placeholders.size(); ++i)
    argument_of.emplace(recording.placeholders[i].value.get(), i);
  auto source_of = [&](Value *leaf) {
    Source source;
    if (auto argument = argument_of.find(leaf); argument != argument_of.end()) {
      source.kind = Source::Kind::kArgument;
      source.argument = argument->second;
      source.written = static_cast<bool>(recording.written_arguments[source.argument]);
    } else if (auto storage = recording.storage_of.find(leaf);
               storage != recording.storage_of.end()) {
      const TouchedStorage &touched = recording.storages[storage->second];
      // Of a gradient the leaf alone: at another call it may have another storage.
      source.kind = touched.gradient_of ? Source::Kind::kGradient : Source::Kind::kStorage;
      if (!touched.gradient_of)
        source.storage = touched.tensor;
      source.leaf = touched.gradient_of;
      source.written = static_cast<bool>(touched.written);
    } else {
      source.constant = Var{ValueRef(leaf)};
    }
    return source;
  };

  std::unordered_map<Value *, Target *> targets;
  bound.targets.resize(recording.slice.outputs.size());
  for (size_t i = 0; i < bound.targets.size(); ++i) {
    bound.targets[i].type = recording.slice.outputs[i]->type;
    targets.emplace(recording.slice.outputs[i], &bound.targets[i]);
  }
  std::vector<Value *> passed; // leaves
  std::vector<std::unique_ptr<Target>> passed_to;
  auto target_of = [&](const Var &x) -> Target & {
    Value *value = x.value.get();
    auto [it, fresh] = targets.try_emplace(value);
    if (fresh) {
      passed.push_back(value);
      passed_to.push_back(std::make_unique<Target>());
      passed_to.back()->type = value->type;
      it->second = passed_to.back().get();
    }
    return *it->second;
  };
  for (uint32_t i = 0; i < recording.outputs.size(); ++i)
    if (const Var &x = recording.outputs[i])
      target_of(x).outputs.push_back(i);
  for (uint32_t i = 0; i < recording.written_arguments.size(); ++i)
    if (const Var &x = recording.written_arguments[i])
      target_of(x).arguments.push_back(i);
  for (const TouchedStorage &touched : recording.storages) {
    if (!touched.written)
      continue;
    Target &target = target_of(touched.written);
    if (touched.gradient_of)
      target.gradients.push_back(touched.gradient_of);
    else
      target.storages.push_back(touched.tensor);
  }
  for (const TouchedGradient &touched : recording.gradients) {
    if (touched.after == TouchedGradient::After::kNew)
      target_of(touched.value).new_gradients.push_back(touched.leaf);
    else if (touched.after == TouchedGradient::After::kNone)
      bound.dropped_gradients.push_back(touched.leaf);
  }
  for (const TouchedState &touched : recording.states)
    if (touched.is_changed())
      bound.states.push_back(touched);
  for (Value *leaf : recording.slice.leaves) {
    Source &source = bound.sources.emplace_back(source_of(leaf));
    // What is handed on must stay what it is.
    source.written = source.written && !targets.count(leaf);
  }
  for (size_t i = 0; i < passed.size(); ++i)
    bound.passed.emplace_back(source_of(passed[i]), std::move(*passed_to[i]));
  return bound;
}

bool has_aliases(const BoundProgram &bound, const std::vector<Tensor> &arguments) {
  llvm::SmallDenseMap<TensorImpl *, llvm::SmallVector<uint32_t, 1>, 8> given; // by storage
  for (uint32_t i = 0; i < arguments.size(); ++i)
    given[arguments[i].impl()->storage()].push_back(i);
  auto is_given_again = [&](uint32_t argument, llvm::ArrayRef<uint32_t> of_storage) {
    return llvm::any_of(of_storage, [&](uint32_t other) {
      return other != argument && !are_apart(arguments[other], arguments[argument]);
    });
  };
  llvm::SmallPtrSet<TensorImpl *, 4> written; // arguments' storages
  bool found = false;
  each_target(bound, [&](const Target &target) {
    for (uint32_t argument : target.arguments) {
      TensorImpl *storage = arguments[argument].impl()->storage();
      written.insert(storage);
      found = found || is_given_again(argument, given[storage]) || is_lent(*storage);
    }
    for (const Tensor &storage : target.storages)
      found = found || given.contains(storage.impl());
    for (const GradRef &leaf : target.gradients)
      found = found || given.contains(leaf->grad.impl()->storage());
  });
  if (written.empty())
    return found;
  for (const Source &source : bound.sources)
    found = found || written.contains(storage_of(source));
  for (const auto &[source, target] : bound.passed)
    found = found || written.contains(storage_of(source));
  return found;
}

std::string difference(const BoundProgram &then, const BoundProgram &now, Location location) {
  if (then.sources.size() != now.sources.size() || then.passed.size() != now.passed.size())
    return "other tensors";
  for (size_t i = 0; i < then.sources.size(); ++i)
    if (const char *what = difference(then.sources[i], now.sources[i], location))
      return what;
  for (size_t i = 0; i < then.passed.size(); ++i)
    if (const char *what = difference(then.passed[i].first, now.passed[i].first, location))
      return what;
  return "";
}

std::optional<std::vector<Tensor>> call(BoundProgram &bound, const std::vector<Tensor> &arguments,
                                        Location location, llvm::function_ref<bool()> fits) {
  runtime::profile::Span span(runtime::profile::Kind::kSubmit, "submit: jit or program");
  Call call(bound, arguments, location);
  std::optional<std::vector<Tensor>> results;
  for (Attempt attempt = Attempt::kFirst;;) {
    if (call.settle()) {
      if ((results = call.run(attempt)))
        break;
      make_room();
      attempt = Attempt::kLast;
    }
    if (!fits())
      return std::nullopt;
  }
  // From now on it is a hit.
  Evaluation &figures = bound.figures;
  figures.outcome = CacheOutcome::kMemoryHit;
  figures.difference.clear();
  figures.disk_cache.clear();
  figures.compile_ms = 0;
  return results;
}

} // namespace weft::recorder
