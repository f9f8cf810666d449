// weft::jit replays a function's program; weft::trace gives it as an object to print, save, run and
// compile ahead of time.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/tensor.h"

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
  std::string cpu = {};       // LLVM's name of the processor, "" for this machine's
  bool embed_weights = true;  // false: weights stand in OUTPUT.safetensors
  std::string name = "model"; // prefix of the C functions
};

// How a program is stored: MLIR's text, for reading and editing, or its bytecode, which is smaller
// and loads faster.
enum class ProgramFormat { text, bytecode };

// What Program::differentiate differentiates.
struct DifferentiateOptions {
  std::vector<int64_t> arguments = {}; // by which inputs; empty: all of a floating dtype
  int64_t result = 0;                  // which output
};

// A recorded function: a module of weft ops whose arguments are its inputs; the tensors that it
// captured are constants.
class Program {
public:
  Program() = default;
  explicit Program(std::shared_ptr<recorder::ProgramImpl> impl) : impl_(std::move(impl)) {}

  // The IR, with the lines of the user's source as locations.
  void print() const;
  void print(std::ostream &stream) const;
  // The IR as text, with or without the lines of the user's source.
  std::string to_string(bool locations = true) const;
  // Captured tensors are saved with it; an old file is replaced in one step. Errors: the file
  // cannot be written.
  void save(const std::string &path, ProgramFormat format = ProgramFormat::text,
            Location location = Location::current()) const;
  // Either format. Errors: a file that cannot be read, that is damaged, no program of weft ops, or
  // of a newer version; the message says where.
  static Program load(const std::string &path, Location location = Location::current());
  // The program that a text of IR holds. Errors: as load().
  static Program parse(const std::string &text, Location location = Location::current());
  // Errors: number, shapes or dtypes of the inputs.
  std::vector<Tensor> run(const std::vector<Tensor> &inputs,
                          Location location = Location::current()) const;
  // The program that returns this one's outputs and then a gradient for each chosen input, by
  // reverse mode. An output of more than one element takes its cotangent (of its shape and dtype)
  // as one more, last input. A derivative is a program like any other: its own outputs can be
  // differentiated again. Errors: an input or output that is not there or has no floating dtype, an
  // op without a derivative.
  Program differentiate(const DifferentiateOptions &options = {},
                        Location location = Location::current()) const;
  // Compiles ahead of time and writes options.output.
  void compile(const CompileOptions &options, Location location = Location::current()) const;

  // What run() takes: the shapes of the inputs, in order.
  std::vector<Shape> input_shapes() const;
  // The dtypes of the inputs.
  std::vector<DType> input_dtypes() const;
  // What run() gives: the shapes of the outputs, in order.
  std::vector<Shape> output_shapes() const;
  // The dtypes of the outputs.
  std::vector<DType> output_dtypes() const;

private:
  std::shared_ptr<recorder::ProgramImpl> impl_;
};

namespace recorder {
using ErasedFunction = std::function<std::vector<Tensor>(const std::vector<Tensor> &)>;
using TensorNames = std::vector<std::pair<std::string, Tensor>>;
Program trace(const ErasedFunction &function, const std::vector<Tensor> &inputs,
              const TensorNames &names, Location location);
// The state of a module, as a function that is traced may be one; nothing for other functions.
template <typename F> TensorNames state_names(const F &function) {
  if constexpr (requires { TensorNames(function.state()); })
    return function.state();
  else
    return {};
}
std::shared_ptr<JitImpl> make_jit(ErasedFunction function);
std::vector<Tensor> call_jit(JitImpl &jit, const std::vector<Tensor> &inputs, Location location);

inline std::vector<Tensor> flatten_result(Tensor result) {
  return {std::move(result)};
}
inline std::vector<Tensor> flatten_result(std::vector<Tensor> result) {
  return result;
}
inline std::vector<Tensor> flatten_result(std::pair<Tensor, Tensor> result) {
  return {std::move(result.first), std::move(result.second)};
}

template <typename F, size_t... I>
decltype(auto) call_with(F &function, const std::vector<Tensor> &args, std::index_sequence<I...>) {
  return function(args[I]...);
}
// Whether F takes its tensors as one vector; else each is an argument.
template <typename F>
inline constexpr bool takes_vector = std::is_invocable_v<F &, const std::vector<Tensor> &> &&
                                     !std::is_invocable_v<F &, const Tensor &>;
template <typename F, size_t N = 0> constexpr size_t arity() {
  if constexpr (N > 8)
    return N;
  else if constexpr ([]<size_t... I>(std::index_sequence<I...>) {
                       return std::is_invocable_v<
                           F &, decltype((void(I), std::declval<const Tensor &>()))...>;
                     }(std::make_index_sequence<N>()))
    return N;
  else
    return arity<F, N + 1>();
}
} // namespace recorder

// Records fn(inputs...) and returns its program. fn takes Tensors (or one const
// std::vector<Tensor>&) and returns a Tensor, a pair or a vector of them. Tensors that fn captures
// become constants of the program; where fn is an nn::Module, its parameters and buffers keep their
// names ("up.weight"), by which compile() stores and --weights finds them. Nothing is run and no
// storage changes.
template <typename F>
Program trace(F &&fn, const std::vector<Tensor> &inputs, Location location = Location::current()) {
  using Fn = std::remove_reference_t<F>;
  if constexpr (recorder::takes_vector<Fn>) {
    return recorder::trace(
        [&fn](const std::vector<Tensor> &args) { return recorder::flatten_result(fn(args)); },
        inputs, recorder::state_names(fn), location);
  } else {
    constexpr size_t n = recorder::arity<Fn>();
    static_assert(
        n <= 8, "weft::trace: the function must take up to 8 tensors, or one std::vector<Tensor>");
    if (inputs.size() != n)
      throw Error(ErrorKind::kValue,
                  "trace: the function takes " + std::to_string(n) + " tensors, " +
                      std::to_string(inputs.size()) + " were given",
                  location);
    return recorder::trace(
        [&fn](const std::vector<Tensor> &args) {
          return recorder::flatten_result(
              recorder::call_with(fn, args, std::make_index_sequence<n>()));
        },
        inputs, recorder::state_names(fn), location);
  }
}

namespace recorder {
// An argument of a function of tensors, written out for each, so that the caller's line can follow
// them.
template <size_t> using TensorArgument = const Tensor &;
template <typename F> consteval auto jit_arguments() {
  if constexpr (takes_vector<F>)
    return;
  else {
    static_assert(arity<F>() <= 8,
                  "weft::jit: the function must take up to 8 tensors, or one std::vector<Tensor>");
    return std::make_index_sequence<arity<F>()>();
  }
}
template <typename Result> Result unflatten(std::vector<Tensor> results) {
  if constexpr (std::is_same_v<Result, std::vector<Tensor>>)
    return results;
  else if constexpr (std::is_same_v<Result, std::pair<Tensor, Tensor>>)
    return Result(std::move(results[0]), std::move(results[1]));
  else
    return std::move(results[0]);
}
} // namespace recorder

// A function that is recorded at its first call for each combination of input shapes and dtypes,
// and replayed after. Storages that existed before the call and are read are inputs, read again at
// each call; those that are written are outputs. Other C++ values are frozen; WEFT_JIT_CHECK=1
// records again and compares. Assigning to a handle that was born before the recording throws.
template <typename F, typename Arguments = decltype(recorder::jit_arguments<F>())> class Jit;

// Of up to eight tensors.
template <typename F, size_t... I> class Jit<F, std::index_sequence<I...>> {
public:
  explicit Jit(F fn)
      : impl_(recorder::make_jit([fn = std::make_shared<F>(std::move(fn))](
                                     [[maybe_unused]] const std::vector<Tensor> &args) {
          return recorder::flatten_result((*fn)(args[I]...));
        })) {}
  auto operator()(recorder::TensorArgument<I>... args,
                  Location location = Location::current()) const {
    return recorder::unflatten<std::invoke_result_t<F &, recorder::TensorArgument<I>...>>(
        recorder::call_jit(*impl_, {args...}, location));
  }

private:
  std::shared_ptr<recorder::JitImpl> impl_;
};

// Of a vector of them.
template <typename F> class Jit<F, void> {
public:
  explicit Jit(F fn)
      : impl_(recorder::make_jit(
            [fn = std::make_shared<F>(std::move(fn))](const std::vector<Tensor> &args) {
              return recorder::flatten_result((*fn)(args));
            })) {}
  auto operator()(const std::vector<Tensor> &args, Location location = Location::current()) const {
    return recorder::unflatten<std::invoke_result_t<F &, const std::vector<Tensor> &>>(
        recorder::call_jit(*impl_, args, location));
  }

private:
  std::shared_ptr<recorder::JitImpl> impl_;
};
// The function fn as a Jit: `auto step = weft::jit([&](const Tensor &x) { ... });`. Parameters and
// results are those of trace().
template <typename F> Jit<std::decay_t<F>> jit(F &&fn) {
  return Jit<std::decay_t<F>>(std::forward<F>(fn));
}

} // namespace weft
