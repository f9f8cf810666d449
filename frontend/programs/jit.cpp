// weft::jit: one compiled program for each way in which the function can be called, replayed on
// storages.
#include <algorithm>
#include <atomic>
#include <iostream>

#include "compiler/pipeline/Registrations.h"
#include "frontend/compile/environment.h"
#include "frontend/programs/bound_program.h"
#include "frontend/programs/trace.h"
#include "frontend/recorder/programs/find_program.h"
#include "frontend/recorder/programs/program_cache.h"
#include "frontend/recorder/programs/stability.h"
#include "frontend/recorder/runs/invocation.h"
#include "frontend/recorder/slices/claims.h"
#include "frontend/tensor/autocast.h"
#include "runtime/core/caches.h"
#include "weft/explain.h"

namespace weft::recorder {
namespace {

// A recording, for calls that meet the same arguments, and the same of what the function looks at
// besides values.
struct Replay {
  std::string key;
  std::vector<ArgumentType> types;
  // That handles among the arguments led to. Weak, so that they go with their last handle; while
  // these live, what counts the handles is no other object's.
  std::vector<std::weak_ptr<const void>> objects;
  bool grad_mode = false;
  AutocastState casts; // those of the scope that the call was in
  Math math = Math::kStandard;
  uint8_t device = 0; // where the call made what it made of no tensor
  uint64_t context = 0;    // ProgramContext::salt(): a program of another one is another program
  uint64_t configured = 0; // when it was seen to be that (configurations())
  std::vector<std::pair<Tensor, bool>> requires_grad;    // by captured storage
  std::vector<std::pair<GradRef, TypeRef>> had_gradient; // its storage's type, or null
  std::vector<TouchedState> states;

  // What a call leaves behind cannot be had from a program: the function itself is called.
  bool direct = false;
  BoundProgram bound;
  HeldKey slice_key;
  std::shared_ptr<const void> result_shape;

  Replay() {
    ++count;
  }
  ~Replay() {
    --count;
  }
  inline static std::atomic<int64_t> count = 0;
};

const runtime::RegisteredCache
    registered("jit programs",
               "the jitted function's end; its least recently used beyond Config::jit_signatures; "
               "those of a module among its arguments, once that is gone, in the next call with a "
               "module",
               [] { return runtime::CacheUse{Replay::count, -1, -1, -1}; });

const TypeInfo *gradient_type(const GradNode &leaf) {
  return leaf.grad.defined() ? leaf.grad.impl()->storage()->type : nullptr;
}

// Whether the gradients that the program reads are there.
bool has_gradients(const Replay &replay) {
  for (const auto &[leaf, type] : replay.had_gradient)
    if (gradient_type(*leaf) != type)
      return false;
  return true;
}

bool is_for(const Replay &replay, const std::vector<std::shared_ptr<const void>> &objects) {
  return std::equal(replay.objects.begin(), replay.objects.end(), objects.begin(), objects.end(),
                    [](const auto &then, const auto &now) {
                      return !then.owner_before(now) && !now.owner_before(then);
                    });
}

// Whether no call can be for its objects any more.
bool is_left_over(const Replay &replay) {
  return std::any_of(replay.objects.begin(), replay.objects.end(),
                     [](const auto &object) { return object.expired(); });
}

bool fits(const Replay &replay) {
  for (const TouchedState &touched : replay.states)
    if (touched.is_read && *touched.state != touched.before)
      return false;
  for (const auto &[tensor, required] : replay.requires_grad)
    if (static_cast<bool>(tensor.impl()->leaf) != required)
      return false;
  return has_gradients(replay);
}

// Changes whenever the context of programs may have.
uint64_t configurations() {
  return recorder().configured + compiler::registrationsGeneration();
}

bool is_of_this_context(Replay &replay) {
  uint64_t now = configurations();
  if (replay.configured != now &&
      ProgramContext(recorder().config, replay.device).salt() == replay.context)
    replay.configured = now;
  return replay.configured == now;
}

// Whether each of its elements is an element of memory that nobody else refers to, as those of
// results are.
bool is_of_its_own(const Tensor &tensor) {
  for (const TensorImpl *impl = tensor.impl(); impl;
       impl = impl->is_view() ? impl->view->base.impl() : nullptr)
    if (impl->refs.load(std::memory_order_relaxed) > 1)
      return false;
  return std::ranges::none_of(steps_from_storage(tensor), [](const ViewStep &step) {
    return step.kind == ViewStep::Kind::kBroadcast;
  });
}

// What the program writes may lie in the memory of what it reads. The recording's slice, which
// knows no calls, gets its flags.
void mark_donated(Slice &slice, const BoundProgram &bound) {
  llvm::BitVector same;
  for (size_t i = 0; i < slice.leaves.size(); ++i) {
    bool written = bound.sources[i].written;
    slice.key.leaves[i].donatable = written;
    slice.key.leaves[i].kept = written && slice.checks;
    same.push_back(bound.sources[i].kind == Source::Kind::kStorage && !written);
  }
  mark_stable_replayed(slice, same);
}

} // namespace

class JitImpl {
public:
  explicit JitImpl(Location made) : made(made) {}
  ~JitImpl() {
    UnderLock lock;
    replays_.clear();
  }

  const Location made;

  ErasedResult call(const ErasedFunction &function, const tensor_tree::FlattenArguments &given,
                    Location location) {
    const std::vector<Tensor> &arguments = given.tensors;
    // Inside another trace it is a plain function.
    if (active_trace())
      return function(arguments);
    std::shared_ptr<Replay> ready; // recorded or checked by this call, which uses it next
    bool is_new = false;
    while (true) {
      std::vector<ArgumentType> types;
      std::shared_ptr<Replay> replay;
      {
        // From here to the call the lock is held, so that what fits now fits then: another thread
        // may drop a gradient that the program reads, or change a state that it goes by.
        Session session("jit", location);
        wait_until_recorded(location);
        bool has_history = look_at(arguments, types);
        bool is_ready = ready && has_gradients(*ready);
        if (!has_history)
          replay = is_ready ? ready : find(given, types);
        bool to_check = replay && !is_ready && !replay->direct && recorder().config.jit_check;
        if (has_history ||
            (replay && !to_check && (replay->direct || has_aliases(replay->bound, arguments)))) {
          ++recorder().statistics.direct_calls;
          break;
        }
        if (replay && !to_check) {
          auto still_fits = [&] {
            wait_until_recorded(location);
            return (is_ready ? has_gradients(*replay) : fits(*replay)) &&
                   !has_aliases(replay->bound, arguments);
          };
          if (auto results = recorder::call(replay->bound, arguments, location, still_fits)) {
            recorder().statistics.replays += !is_new && replay->bound.program;
            return {*std::move(results), replay->result_shape};
          }
          ready = nullptr;
          continue;
        }
      }
      // Without the lock: the function is the user's.
      is_new = !replay;
      if (is_new)
        ready = make(function, given, types, location);
      else
        check(*(ready = replay), function, types, location);
    }
    ErasedResult result = function(arguments); // its ops have names and lines of their own
    for (Tensor &tensor : result.tensors)
      if (!is_of_its_own(tensor))
        tensor = tensor.clone();
    return result;
  }

private:
  // While it lives, this thread records the function. Calls of other threads wait: what it writes
  // has no value for them until then.
  class Turn : Scope {
  public:
    Turn(JitImpl &jit, Location location) : jit_(jit) {
      UnderLock lock;
      jit.wait_until_recorded(location);
      jit.is_recorded_ = true;
    }
    ~Turn() {
      UnderLock lock;
      jit_.is_recorded_ = false;
      end_claim();
    }

  private:
    JitImpl &jit_;
  };

  void wait_until_recorded(Location location) {
    while (is_recorded_)
      wait_for_a_recording(location);
  }

  Recording record_alone(const ErasedFunction &function, const std::vector<ArgumentType> &types,
                         Location location) {
    Turn turn(*this, location);
    return record("jit", function, types, location);
  }

  // Notes the arguments' types. Whether one has a history that what stands for it has not: a leaf
  // stands for a leaf.
  static bool look_at(const std::vector<Tensor> &arguments, std::vector<ArgumentType> &types) {
    bool has_history = false;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Tensor &argument = arguments[i];
      if (!argument.defined())
        fail(ErrorKind::kState, "argument " + std::to_string(i) +
                                    " is an undefined tensor: " + kWhyUndefined);
      const TensorImpl *impl = checked(argument, "argument");
      types.push_back({current_type(argument, "argument"), static_cast<bool>(impl->leaf)});
      bool is_plain_leaf = impl->leaf && !impl->leaf->hooks;
      has_history = has_history || (grad_mode() && !is_plain_leaf && argument.requires_grad());
    }
    return has_history;
  }

  std::shared_ptr<Replay> find(const tensor_tree::FlattenArguments &given,
                               const std::vector<ArgumentType> &types) {
    // They hold all tensors of a model that somebody has replaced.
    if (!given.objects.empty())
      std::erase_if(replays_, [](const auto &each) { return is_left_over(*each); });
    auto known = std::find_if(replays_.begin(), replays_.end(), [&](const auto &each) {
      return each->grad_mode == grad_mode() && same_casts(each->casts, thread_autocast) &&
             each->math == math_of(recorder().config) && each->device == default_device() &&
             each->types == types && each->key == given.key && is_for(*each, given.objects) &&
             fits(*each) && is_of_this_context(*each);
    });
    if (known == replays_.end())
      return nullptr;
    std::rotate(replays_.begin(), known, known + 1);
    return replays_.front();
  }

  // With WEFT_JIT_CHECK=1: whether the function would be recorded as it was.
  void check(const Replay &replay, const ErasedFunction &function,
             const std::vector<ArgumentType> &types, Location location) {
    Recording again = record_alone(function, types, location);
    std::string what;
    if (again.slice.key != replay.slice_key.key) {
      what = "records another program";
    } else {
      Session session("jit", location);
      what = difference(replay.bound, bind_recording(again), location);
      if (!what.empty())
        what = "reads " + what;
    }
    if (!what.empty())
      fail_at(location, ErrorKind::kState,
              "jit: the function " + what +
                  " than at its first call (WEFT_JIT_CHECK): a C++ value that it depends on "
                  "has changed, or a handle; pass it as a tensor, or write the tensor in place");
  }

  std::shared_ptr<Replay> make(const ErasedFunction &function,
                               const tensor_tree::FlattenArguments &given,
                               const std::vector<ArgumentType> &types, Location location) {
    Recording recording = record_alone(function, types, location);
    Session session("jit", location);
    auto replay = std::make_shared<Replay>();
    replay->key = given.key;
    replay->objects.assign(given.objects.begin(), given.objects.end());
    replay->result_shape = recording.result_shape;
    replay->states = recording.states;
    replay->types = types;
    replay->grad_mode = grad_mode();
    replay->casts = thread_autocast;
    replay->math = math_of(recorder().config);
    replay->device = default_device();
    replay->context = ProgramContext(recorder().config, replay->device).salt();
    replay->configured = configurations();
    for (const TouchedStorage &touched : recording.storages)
      if (!touched.gradient_of)
        replay->requires_grad.emplace_back(touched.tensor, touched.requires_grad);
    for (const TouchedGradient &touched : recording.gradients)
      replay->had_gradient.emplace_back(touched.leaf, gradient_type(*touched.leaf));
    std::string why = recording.several_devices;
    if (recording.has_history)
      why = "its results keep a history";
    else if (recording.reads_argument_gradient)
      why = "it asks for an argument's gradient, or says what is done with it";
    else if (recording.changes_leaves)
      why = "it changes which tensors from outside require grad";
    replay->direct = !why.empty();
    if (replay->direct && recorder().config.explain)
      std::cerr << std::string("weft jit ") + Session::location().file_name() + ":" +
                       std::to_string(Session::location().line()) +
                       " | the function itself is called: " + why + "\n";
    if (!replay->direct) {
      replay->bound = bind_recording(recording);
      replay->slice_key = hold_key(recording.slice);
      if (!recording.slice.nodes.empty())
        compile(recording.slice, replay->bound, location);
    }
    if (std::shared_ptr<Replay> other = find(given, types))
      return other; // another thread was faster
    // The bound may have been lowered since the last call.
    while (!replays_.empty() &&
           static_cast<int64_t>(replays_.size()) >= recorder().config.jit_signatures)
      replays_.pop_back();
    replays_.insert(replays_.begin(), replay);
    return replay;
  }

  static void compile(Slice &slice, BoundProgram &bound, Location location) {
    mark_donated(slice, bound);
    EvaluateRequest request{CutReason::kJit, location};
    while (being_compiled(slice))
      wait_for_a_program(location);
    Claim claimed(slice);
    static_cast<FoundProgram &>(bound) = find_program(slice, request);
  }

  std::vector<std::shared_ptr<Replay>> replays_; // the last used first
  bool is_recorded_ = false;                     // by some thread, now
};

std::shared_ptr<JitImpl> make_jit(Location made) {
  return std::make_shared<JitImpl>(made);
}
Location line_of_call(const JitImpl *jit, Location call) {
  const JitImpl &impl = held(jit, "jit", "function", call);
  return is_of_library(call) ? impl.made : call;
}
ErasedResult call_jit(JitImpl &jit, const ErasedFunction &function,
                      const tensor_tree::FlattenArguments &arguments, Location location) {
  return jit.call(function, arguments, location);
}

} // namespace weft::recorder
