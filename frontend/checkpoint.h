// Recomputation by choice: what a function computes on the way is not kept for its derivative, but
// computed again.
#pragma once

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/autograd.h"
#include "weft/jit.h"
#include "weft/tensor_tree.h"

namespace weft {

namespace recorder {
class CheckpointRegion;

// Notes what this thread records, from here to close(), which makes the results' history give up
// what it saved of that. Without close() nothing changes.
class CheckpointScope {
public:
  CheckpointScope(const std::vector<Tensor> &inputs, Location location);
  ~CheckpointScope();
  CheckpointScope(const CheckpointScope &) = delete;
  CheckpointScope &operator=(const CheckpointScope &) = delete;
  void close(const std::vector<Tensor> &results, Location location);

private:
  std::unique_ptr<CheckpointRegion> region_;
};
} // namespace recorder

// A function whose derivative computes it again. checkpoint() makes one.
template <typename F> class Checkpointed {
public:
  Checkpointed(F fn, Location location)
      : fn_(std::make_shared<F>(std::move(fn))), location_(location) {}

  // What fn gives for these arguments. Error kState: this was moved from.
  template <typename... A> auto operator()(const A &...arguments) const {
    using Result = std::decay_t<decltype(call(arguments...))>;
    if constexpr (std::is_void_v<Result>) {
      call(arguments...);
    } else {
      if (!grad_enabled())
        return Result(call(arguments...));
      std::tuple<std::decay_t<A>...> given(arguments...);
      tensor_tree::Flatten inputs, results;
      inputs(given);
      recorder::CheckpointScope scope(inputs.tensors, location_);
      Result result = call(arguments...);
      results(result);
      scope.close(results.tensors, location_);
      return result;
    }
  }

private:
  // At the line of checkpoint() where fn is a layer, which takes one.
  template <typename... A> decltype(auto) call(const A &...arguments) const {
    F &fn = recorder::held(fn_, "checkpoint", "function", location_);
    if constexpr (!recorder::takes_location<F>())
      return fn(arguments...);
    else if constexpr (requires { fn(arguments..., location_); })
      return fn(arguments..., location_);
    else { // arguments that have defaults come before it
      CallerScope caller(location_);
      return fn(arguments...);
    }
  }

  std::shared_ptr<F> fn_;
  Location location_;
};

// fn, which takes and gives tensors and what holds them (tensor_tree.h), as a function that gives
// the same, but whose derivative keeps only what fn's ops read from outside: the arguments and
// captured tensors. The rest is computed again on the way back, from the same values, with the same
// bits: random draws are those of the first time, and what fn writes in place (a batch norm's
// statistics) is written once.
//
//   for (Block &block : blocks)
//     x = weft::checkpoint(block)(x);
//
// Kept are also the results of what runs once: lookups and checks of indices, users' kernels, what
// ranks exchange, and calls of jit functions. What fn computes of captured tensors alone is
// computed again only where forward and backward are programs of their own: give as arguments what
// it begins with. Calls nest; under NoGrad it is a plain call. docs/patterns.md tells more.
template <typename F>
Checkpointed<std::decay_t<F>> checkpoint(F &&fn, Location location = Location::current()) {
  return {std::forward<F>(fn), location};
}

} // namespace weft
