// A function, or the step of a loop that asks for values, run as it is called, jitted and traced:
// each from one state, and what it returns and writes has the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/weft.h"

namespace weft::tests {

// Parameters, and what the optimizer keeps beside them.
std::vector<Tensor> written_by(const optim::Optimizer &optimizer);

struct ThreeWays {
  // What the function writes besides its arguments: parameters and their optimizer's state, batch
  // statistics. Afterwards they are what they were, without gradients. The default generator needs
  // no mention; it starts from another seed afterwards.
  std::vector<Tensor> written = {};
  int calls = 2;
  // So many arguments are, from the second call on, what the call before returned, in order.
  size_t fed_back = 0;

  // Values among the arguments that are no tensors are the same in all calls.
  template <typename F, typename... A>
  void compare(const F &function, const A &...arguments) const {
    std::tuple<A...> given(arguments...);
    tensor_tree::Flatten start;
    start(given);
    run(
        [&](const std::vector<Tensor> &tensors) {
          std::tuple<A...> mine = given;
          tensor_tree::Replace replace(tensors);
          replace(mine);
          tensor_tree::Flatten results;
          if constexpr (std::is_void_v<decltype(std::apply(function, mine))>) {
            std::apply(function, mine);
          } else {
            auto result = std::apply(function, mine);
            results(result);
          }
          return std::move(results.tensors);
        },
        start.tensors);
  }

private:
  using Function = std::function<std::vector<Tensor>(const std::vector<Tensor> &)>;
  void run(const Function &function, const std::vector<Tensor> &start) const;
};

} // namespace weft::tests
