// Derivatives. Backward is recorded like any other call, so gradients have gradients, and forward,
// backward and update become one program.
#pragma once

#include <vector>

#include "weft/tensor.h"

namespace weft {

// What grad() is given beside outputs and inputs.
struct GradOptions {
  std::vector<Tensor> grad_outputs =
      {}; // the weights of the outputs; may be left out for outputs of one element
  bool create_graph = false; // record the derivative so that it can be differentiated again
  bool retain_graph = false; // keep what was saved, for a second backward; create_graph implies it
  bool allow_unused =
      false; // an input that no output depends on gives an undefined tensor instead of an error
};
// The derivative of the outputs' (weighted) sum by each input. Leaves' grad() stays as it is.
std::vector<Tensor> grad(const std::vector<Tensor> &outputs, const std::vector<Tensor> &inputs,
                         const GradOptions &options = {}, Location location = Location::current());
// grad(outputs, inputs, create_graph) in short.
inline std::vector<Tensor> grad(const std::vector<Tensor> &outputs,
                                const std::vector<Tensor> &inputs, bool create_graph,
                                Location location = Location::current()) {
  return grad(outputs, inputs, GradOptions{.create_graph = create_graph}, location);
}

// While one lives, calls on this thread keep no history.
class NoGrad {
public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad &) = delete;
  NoGrad &operator=(const NoGrad &) = delete;

private:
  bool previous_;
};
using no_grad = NoGrad;

// Turns history on again inside a NoGrad.
class EnableGrad {
public:
  EnableGrad();
  ~EnableGrad();
  EnableGrad(const EnableGrad &) = delete;
  EnableGrad &operator=(const EnableGrad &) = delete;

private:
  bool previous_;
};

// Whether calls on this thread keep history.
bool grad_enabled();

} // namespace weft
