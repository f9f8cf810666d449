// weft::jit replays a function's program; weft::trace gives it as an object to print, save, run and
// compile ahead of time.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/explain.h"
#include "weft/tensor_tree.h"

namespace weft {

namespace recorder {
struct ProgramImpl;
class JitImpl;
} // namespace recorder

// What weft-compile and Program::compile write.
enum class Emit { weft, plan, llvm, assembly, object, library, executable };
struct CompileOptions {
  Emit emit = Emit::executable;
  std::string output = {}; // path; an object and a library get a C header beside it
  std::string target = "cpu";
  // LLVM's name of the processor, "" for this machine's; or several, the best first, as
  // "x86-64-v4,x86-64-v3": the model takes the first that its machine can run.
  std::string cpu = {};
  bool embed_weights = true;  // false: weights and state stand in OUTPUT.safetensors
  // Of the model in C, weft_model_NAME: an identifier. Empty: the output's name, made one.
  std::string name = "model";
  // Bytes that a run may take beside its inputs and weights, outputs included; see
  // Config::memory_limit. 0: no limit; what costs next to nothing is computed again. A program
  // that cannot keep to it takes the least that was found, with a warning.
  int64_t memory_limit = 0;
  // Under that limit values may wait in a file, in the folder that WEFT_MEMORY_FOLDER names when
  // the model is opened, else TMPDIR, else /var/tmp; see Config::memory_folder.
  bool memory_files = false;
  // Objects or archives with the kernels of users that the program calls, for a library or an
  // executable: they define weft_kernel_plugin, as a plugin of kernels does (weft/extend.h).
  std::vector<std::string> link = {};
};

// How a program is stored: MLIR's text, for reading and editing, or its bytecode, which is smaller
// and loads faster.
enum class ProgramFormat { text, bytecode };

// What Program::differentiate differentiates.
struct DifferentiateOptions {
  std::vector<int64_t> arguments = {}; // by which inputs; empty: all of a floating dtype
  int64_t result = 0;                  // which output
};

// The sizes that the leading dim of inputs may have, both bounds included: one size for all of
// them, which compile() leaves open.
//
//   weft::trace(model, {x}, {}, weft::BatchRange{.min = 1, .max = 64})
struct BatchRange {
  int64_t min = 0, max = 0;         // 0 and 0: none, each input has the one shape that it is given
  std::vector<int64_t> inputs = {}; // which inputs have it, by number; empty: all that have dims
};

// What a run of a program takes, in bytes. Not in it: scratch of threads, some KiB each, and what
// is packed or computed of weights that do not change, once (docs/caches.md, "Prepared results").
struct MemoryEstimate {
  int64_t inputs = 0;  // that the run is given
  int64_t state = 0;   // what the program keeps and reads: weights, moments, captured tensors
  int64_t outputs = 0; // in memory of their own; what is written in place is not among them
  int64_t arena = 0;   // intermediate values and what libraries work in
  int64_t recomputations = 0; // instructions that run again instead of keeping values
  int64_t stored_bytes = 0;   // of values that wait in files (Config::memory_folder)
  // What outputs and arena hold at the peak, the largest first; memory_table() shows it. Empty
  // where a backend plans no memory.
  std::vector<MemoryHolder> holders;
  // Of outputs and arena what is live, instruction by instruction, as Evaluation::live_bytes.
  std::vector<int64_t> live_bytes;

  // All that lives at once.
  int64_t peak() const {
    return inputs + state + outputs + arena;
  }
  std::string to_string() const; // one line
};

// A recorded function: a module of weft ops whose arguments are its inputs. Tensors that it
// captured are constants; those that it writes are its state.
class Program {
public:
  Program() = default;
  explicit Program(std::shared_ptr<recorder::ProgramImpl> impl) : impl_(std::move(impl)) {}

  // The IR, with the lines of the user's source as locations.
  void print(Location location = Location::current()) const;
  void print(std::ostream &stream, Location location = Location::current()) const;
  // The IR as text, with or without the lines of the user's source. parse() reads it, but where it
  // holds tensors of more than 16 elements: their values are left out, which save() does not.
  std::string to_string(bool locations = true, Location location = Location::current()) const;
  // Captured tensors are saved with it; an old file is replaced in one step. Errors: the file
  // cannot be written.
  void save(const std::string &path, ProgramFormat format = ProgramFormat::text,
            Location location = Location::current()) const;
  // Either format. A file has no device: the program is the thread's current device's
  // (DeviceScope), wherever it was traced. Errors: a file that cannot be read, that is damaged, no
  // program of weft ops, or of a newer version; the message says where.
  static Program load(const std::string &path, Location location = Location::current());
  // The program that a text of IR holds. Errors: as load().
  static Program parse(const std::string &text, Location location = Location::current());
  // What the program keeps between runs, and a run changes, by name: for a traced training step its
  // parameters, moments, step count and generator. The tensors are the program's own: writing one
  // in place (copy_) changes what the next run finds. save() and compile() store them as they are
  // then.
  std::vector<std::pair<std::string, Tensor>> state(Location location = Location::current()) const;
  // Inputs that the function writes are written. Results are tensors of their own. Where the batch
  // is a range, the inputs have any one size of it. Errors: number, shapes or dtypes of the inputs;
  // an input that lies on another device than the program's; an input that the program writes, and
  // that shares elements with another one (disjoint slices of one tensor share none).
  std::vector<Tensor> run(const std::vector<Tensor> &inputs,
                          Location location = Location::current()) const;
  // The program that returns this one's outputs and then a gradient for each chosen input, by
  // reverse mode. An output of more than one element takes its cotangent (of its shape and dtype)
  // as one more, last input. A derivative is a program like any other: its own outputs can be
  // differentiated again. It is what grad() gives in the function: where that detaches, or computes
  // without history (NoGrad, grad() without create_graph), gradients stop, and the program has
  // weft.detach there; in a function that is traced under NoGrad only where it detaches. What a
  // program does not know: hooks, among them that which makes cholesky's derivative symmetric; and
  // that what is written without history, or through what detach() gave, into a tensor with one
  // leaves that one as it was.
  // Errors: an input or output that is not there or has no floating dtype, an op without a
  // derivative, a program that writes what it keeps or is given (a generator, running statistics).
  Program differentiate(const DifferentiateOptions &options = {},
                        Location location = Location::current()) const;
  // What a run takes on the backend and with the options of now, of a batch of the largest size;
  // compiles the program, which the first run finds, and computes nothing. Errors: as run().
  MemoryEstimate memory(Location location = Location::current()) const;
  // Compiles ahead of time and writes options.output: weft::compile() with one entry, "main".
  void compile(const CompileOptions &options, Location location = Location::current()) const;

  // What run() takes: the shapes of the inputs, in order.
  std::vector<Shape> input_shapes(Location location = Location::current()) const;
  // The sizes that a compiled model takes, and which inputs have them; {0, 0} where all are fixed.
  // input_shapes() and output_shapes() are those of the largest size.
  BatchRange batch(Location location = Location::current()) const;
  // The dtypes of the inputs.
  std::vector<DType> input_dtypes(Location location = Location::current()) const;
  // What run() gives: the shapes of the outputs, in order.
  std::vector<Shape> output_shapes(Location location = Location::current()) const;
  // The dtypes of the outputs.
  std::vector<DType> output_dtypes(Location location = Location::current()) const;
  // Names inputs and outputs, in order; they have numbers else. A model's header and --help show
  // the names, and its files take them; save() keeps them. An empty list changes nothing. Errors:
  // a name too few or too many; one that is empty, has a '=' or is there twice.
  void set_names(const std::vector<std::string> &inputs,
                 const std::vector<std::string> &outputs = {},
                 Location location = Location::current());

private:
  friend void compile(const std::vector<std::pair<std::string, Program>> &entries,
                      const CompileOptions &options, Location location);
  std::shared_ptr<recorder::ProgramImpl> impl_;
};

// Compiles programs into one model, and writes options.output. Each is an entry, which is called by
// its name (runtime/aot/weft_model.h); the first one is what an executable runs where none is
// named.
//
//   weft::StateNames names = {{"model", model}, {"optimizer", optimizer}};
//   weft::compile({{"train", weft::trace(step, {x, y}, names)},
//                  {"predict", weft::trace(model, {x}, names)}},
//                 {.output = "trainer"});
//
// The model keeps the programs' state, beginning with what they keep now: a run of an entry that
// writes it changes it. State and captured tensors of one name are one tensor, so that an entry
// reads what another has learned; name them alike where they are traced. What no entry writes is a
// constant. Inputs that a program writes are not written: their new values are outputs behind its
// own. An entry that reads nothing of what others write, or holds its value under another name or
// none, is warned of. Errors: no entry, or a name that is no C identifier or is there twice;
// tensors of one name that differ in shape or dtype, or in the value that they begin with; state
// without a name in two entries; kernels of users that options.link lacks; a processor of
// options.cpu that is never taken; a file that cannot be written.
void compile(const std::vector<std::pair<std::string, Program>> &entries,
             const CompileOptions &options, Location location = Location::current());

namespace recorder {

using TensorNames = std::vector<std::pair<std::string, Tensor>>;
// What a recorded function returned: its tensors, and the rest, into which those of a call are put.
struct ErasedResult {
  std::vector<Tensor> tensors;
  std::shared_ptr<const void> shape;
};
using ErasedFunction = std::function<ErasedResult(const std::vector<Tensor> &)>;

Program trace(const ErasedFunction &function, const std::vector<Tensor> &inputs,
              const TensorNames &names, const BatchRange &batch, Location location);
std::shared_ptr<JitImpl> make_jit(Location made);
// The line of a call: where the function was made, if the call stands in a header of the standard
// library, as that of a std::function does. Throws Error for null, which a moved-from Jit has.
Location line_of_call(const JitImpl *jit, Location call);
// arguments: their tensors, and all else that decides which program the call needs.
ErasedResult call_jit(JitImpl &jit, const ErasedFunction &function,
                      const tensor_tree::FlattenArguments &arguments, Location location);

// Arguments without a Location at the end: the caller's line, which layers take and is no argument
// of the program.
template <typename... A> struct WithoutLocation {
  static constexpr bool kHad = [] {
    bool last = false;
    ((last = std::is_same_v<A, Location>), ...);
    return last;
  }();
  template <size_t... I>
  static std::tuple<std::tuple_element_t<I, std::tuple<A...>>...> first(std::index_sequence<I...>);
  using type = decltype(first(std::make_index_sequence<sizeof...(A) - kHad>()));
};
// The types of a function's arguments, decayed, as a tuple: those that it declares; of one that
// takes any (a generic lambda), up to eight tensors.
template <typename F> struct DeclaredArguments;
template <typename R, typename... A>
struct DeclaredArguments<R (*)(A...)> : WithoutLocation<std::decay_t<A>...> {};
template <typename R, typename C, typename... A>
struct DeclaredArguments<R (C::*)(A...)> : WithoutLocation<std::decay_t<A>...> {};
template <typename R, typename C, typename... A>
struct DeclaredArguments<R (C::*)(A...) const> : WithoutLocation<std::decay_t<A>...> {};
template <typename F> consteval bool takes_location() {
  if constexpr (requires { typename DeclaredArguments<F>::type; })
    return DeclaredArguments<F>::kHad;
  else if constexpr (requires { typename DeclaredArguments<decltype(&F::operator())>::type; })
    return DeclaredArguments<decltype(&F::operator())>::kHad;
  else
    return false;
}
// A call of fn, at this line where it takes one.
template <typename F, typename... A>
decltype(auto) call_at(Location location, F &fn, A &...arguments) {
  if constexpr (takes_location<std::decay_t<F>>())
    return fn(arguments..., location);
  else
    return fn(arguments...);
}
template <size_t> using AnyTensor = Tensor;
template <typename F, size_t N = 0> consteval auto argument_tuple() {
  if constexpr (requires { typename DeclaredArguments<F>::type; })
    return std::type_identity<typename DeclaredArguments<F>::type>();
  else if constexpr (requires { typename DeclaredArguments<decltype(&F::operator())>::type; })
    return std::type_identity<typename DeclaredArguments<decltype(&F::operator())>::type>();
  else {
    constexpr bool takes = []<size_t... I>(std::index_sequence<I...>) {
      return std::is_invocable_v<F &, decltype((void(I), std::declval<const Tensor &>()))...>;
    }(std::make_index_sequence<N>());
    if constexpr (takes) {
      return []<size_t... I>(std::index_sequence<I...>) {
        return std::type_identity<std::tuple<AnyTensor<I>...>>();
      }(std::make_index_sequence<N>());
    } else if constexpr (N < 8) {
      return argument_tuple<F, N + 1>();
    } else {
      static_assert(tensor_tree::Unknown<F>::value,
                    "weft::jit, weft::trace: the function must declare its arguments, or take up "
                    "to 8 tensors");
      return std::type_identity<std::tuple<>>();
    }
  }
}
template <typename F> using Arguments = typename decltype(argument_tuple<std::decay_t<F>>())::type;
template <typename F, typename Tuple> struct ResultOf;
template <typename F, typename... A> struct ResultOf<F, std::tuple<A...>> {
  using type = std::decay_t<decltype(call_at(std::declval<Location>(), std::declval<F &>(),
                                             std::declval<A &>()...))>;
};

// fn as a function of the tensors in `arguments`, which also give all that is no tensor.
template <typename F, typename Tuple>
ErasedFunction erase(F &fn, const Tuple &arguments, Location location) {
  return [&fn, &arguments, location](const std::vector<Tensor> &tensors) {
    auto call = [&](auto &...each) -> decltype(auto) {
      return call_at(location, fn, each...);
    };
    Tuple mine = arguments;
    tensor_tree::ReplaceArguments replace(tensors);
    replace(mine);
    using Result = typename ResultOf<F, Tuple>::type;
    if constexpr (std::is_void_v<Result>) {
      std::apply(call, mine);
      return ErasedResult();
    } else {
      auto result = std::make_shared<Result>(std::apply(call, mine));
      tensor_tree::Flatten flat;
      flat(*result);
      static const std::vector<Tensor> kNone;
      tensor_tree::Replace none(kNone); // the shape of a result keeps no memory
      none(*result);
      return ErasedResult{std::move(flat.tensors), std::move(result)};
    }
  };
}
template <typename F, typename Tuple>
typename ResultOf<F, Tuple>::type restore(const ErasedResult &erased) {
  using Result = typename ResultOf<F, Tuple>::type;
  if constexpr (!std::is_void_v<Result>) {
    Result result = *static_cast<const Result *>(erased.shape.get());
    tensor_tree::Replace replace(erased.tensors);
    replace(result);
    return result;
  }
}

// State of a C++ object that decides what a function records, and that its calls may change:
// whether a module is in training, which parameters of an optimizer share a count of steps. A
// recording leaves it as it was; a jitted function's replay changes it as the call would, and where
// the call would go by another state than the recording did, the function is recorded again.
using HostState = std::vector<size_t>;
// To be called before the state is read, or some of it written.
void read_state(const std::shared_ptr<HostState> &state);
void write_state(const std::shared_ptr<HostState> &state);
// Writes all of it, and so does a replay, also where the recording wrote what was there. value: as
// long as the state.
void set_state(const std::shared_ptr<HostState> &state, const HostState &value);
// A write to storages that nothing refers to yet. While weft::trace records, which makes a program
// that begins after that change of state, it takes place now and is no part of the program.
void before_program(const std::function<void()> &write);

} // namespace recorder

// Names for what a traced function writes and captures, from what has a state(): modules,
// optimizers, or lists of names and tensors.
//
//   weft::trace(step, {x, y}, {{"model", model}, {"optimizer", optimizer}});
class StateNames {
public:
  StateNames() = default;
  // prefix: the name is "PREFIX.NAME"; "" for none.
  template <typename T> StateNames(const std::string &prefix, const T &holder) {
    if constexpr (requires { holder.state(); })
      add(prefix, holder.state());
    else
      add(prefix, holder);
  }
  StateNames(std::initializer_list<StateNames> all) {
    for (const StateNames &each : all)
      names_.insert(names_.end(), each.names_.begin(), each.names_.end());
  }
  const recorder::TensorNames &names() const {
    return names_;
  }

private:
  void add(const std::string &prefix, const recorder::TensorNames &tensors) {
    for (const auto &[name, tensor] : tensors)
      names_.emplace_back(prefix.empty() ? name : prefix + "." + name, tensor);
  }
  recorder::TensorNames names_;
};

// Records fn and returns its program. fn takes and gives tensors and what holds them
// (tensor_tree.h). What fn captured and only reads becomes constants of the program; what it writes
// becomes the program's state, whose first value is the present one. Parameters and buffers keep
// their names: those of `names`, and, where fn is an nn::Module, its own ("up.weight"). Nothing is
// run and no storage changes. A learning rate is read and not written: the one of now is a
// constant, and set_lr() changes it no more, unless fn writes it (docs/ahead-of-time.md, "A
// training step"). Where fn takes a Location last, as layers do, that is the line of the trace.
// Errors: fn asks for a value; it assigns to a handle that was born before.
//
// With a batch the program is one for all sizes of the range: a model that it is compiled into
// takes each of them, and computes what a call of fn with that size does, bit for bit. fn is then
// recorded at several sizes, whatever the leading dims of `arguments` are, and must record the same
// ops at each. Errors beside those above: the op, with its line, whose sizes or numbers depend on
// the batch in a way that a compiled program cannot follow; a captured tensor of the batch's size.
template <typename F, typename... A>
Program trace(F &&fn, const std::tuple<A...> &arguments, const StateNames &names = {},
              const BatchRange &batch = {}, Location location = Location::current()) {
  recorder::TensorNames all = names.names();
  if constexpr (requires { recorder::TensorNames(fn.state()); }) {
    recorder::TensorNames own = fn.state();
    all.insert(all.end(), own.begin(), own.end());
  }
  auto copy = arguments;
  tensor_tree::FlattenArguments flat;
  flat(copy);
  return recorder::trace(recorder::erase(fn, arguments, location), flat.tensors, all, batch,
                         location);
}
// inputs: the tensors of fn's arguments, in order, or a vector that fn takes as one.
template <typename F>
Program trace(F &&fn, const std::vector<Tensor> &inputs, const StateNames &names = {},
              const BatchRange &batch = {}, Location location = Location::current()) {
  using Arguments = recorder::Arguments<F>;
  Arguments arguments;
  if constexpr (std::is_same_v<Arguments, std::tuple<std::vector<Tensor>>>) {
    std::get<0>(arguments) = inputs;
  } else {
    tensor_tree::Flatten taken;
    taken(arguments);
    if (inputs.size() != taken.tensors.size())
      throw Error(ErrorKind::kValue,
                  "trace: the function takes " + std::to_string(taken.tensors.size()) +
                      " tensors, " + std::to_string(inputs.size()) + " were given",
                  location);
    tensor_tree::Replace replace(inputs);
    replace(arguments);
  }
  return trace(std::forward<F>(fn), arguments, names, batch, location);
}

// What a run of fn with these arguments would take, before anything is computed: the memory() of
// its trace. A training step that cannot be traced can be taken from its evaluation (explain.h).
//
//   weft::MemoryEstimate estimate = weft::estimate_memory(step, {x, y});
template <typename F, typename Inputs>
MemoryEstimate estimate_memory(F &&fn, const Inputs &inputs, const StateNames &names = {},
                               Location location = Location::current()) {
  return trace(std::forward<F>(fn), inputs, names, {}, location).memory(location);
}
template <typename F>
MemoryEstimate estimate_memory(F &&fn, std::initializer_list<Tensor> inputs,
                               const StateNames &names = {},
                               Location location = Location::current()) {
  return trace(std::forward<F>(fn), std::vector<Tensor>(inputs), names, {}, location)
      .memory(location);
}

// A function that is recorded at its first call, and replayed after. It is recorded again for other
// shapes and dtypes, other values of arguments that are no tensors (an undefined one among them),
// with history on or off, where parameters have been frozen or modules switched between training
// and evaluation, where an optimizer's parameters have taken part in other steps, and for each
// module among the arguments, with which its recordings go. Recordings that differ in sizes, or in
// where slices start, share a program as plain calls do. Storages that existed before and are read
// are read again at each call; those that are written, arguments included, are written by each
// call. Results are tensors of their own, or undefined where the recorded call left them so. Where
// the plain call leaves a history behind (a loss that is to be differentiated outside), the plain
// call is made, and Statistics::direct_calls counts it. Other C++ values are frozen, and which
// tensors are captured; WEFT_JIT_CHECK=1 records again and compares. Assigning to a handle that was
// born before the recording throws, at the call or when the handle is read.
template <typename F, typename Arguments = recorder::Arguments<F>> class Jit;

template <typename F, typename... A> class Jit<F, std::tuple<A...>> {
public:
  explicit Jit(F fn, Location made = Location::current())
      : fn_(std::make_shared<F>(std::move(fn))), impl_(recorder::make_jit(made)) {}

  auto operator()(const A &...arguments, Location location = Location::current()) const {
    using Tuple = std::tuple<A...>;
    Tuple given(arguments...);
    tensor_tree::FlattenArguments flat;
    flat(given);
    location = recorder::line_of_call(impl_.get(), location);
    return recorder::restore<F, Tuple>(
        recorder::call_jit(*impl_, recorder::erase(*fn_, given, location), flat, location));
  }

private:
  std::shared_ptr<F> fn_;
  std::shared_ptr<recorder::JitImpl> impl_;
};
// The function fn as a Jit: `auto step = weft::jit([&](const Tensor &x) { ... });`. Parameters and
// results are those of trace().
template <typename F>
Jit<std::decay_t<F>> jit(F &&fn, Location location = Location::current()) {
  return Jit<std::decay_t<F>>(std::forward<F>(fn), location);
}

} // namespace weft
