#include "weft/nn/recurrent_step.h"

#include "weft/autocast.h"
#include "weft/nn/recurrent.h"
#include "weft/ops.h"

namespace weft::nn {

namespace {

bool fits(DType given, DType wanted) {
  return given == wanted || (autocast_dtype() && is_floating(given));
}

std::string described(const Tensor &x) {
  return std::string(name(x.dtype())) + " " + to_string(x.shape());
}

} // namespace

void check_recurrent_sizes(const char *module, int64_t input, int64_t hidden, Location location) {
  if (input < 1 || hidden < 1)
    fail_at(location, ErrorKind::kValue,
            std::string(module) + ": the sizes of input and state must be at least 1, they are " +
                std::to_string(input) + " and " + std::to_string(hidden));
}

Tensor recurrent_input(const char *module, const Tensor &x, DType dtype) {
  if (!fits(x.dtype(), dtype))
    fail_at(Location::current(), ErrorKind::kDType,
            std::string(module) + ": x is " + described(x) + ", the parameters are " + name(dtype) +
                "; convert with to()");
  return x.to(dtype);
}

Tensor recurrent_state(const char *module, const char *argument, const Tensor &state,
                       const Shape &shape, DType dtype) {
  if (state.shape() != shape || !fits(state.dtype(), dtype))
    fail_at(Location::current(), state.shape() != shape ? ErrorKind::kShape : ErrorKind::kDType,
            std::string(module) + ": " + argument + " is " + described(state) + "; it must be " +
                name(dtype) + " " + to_string(shape));
  return state.to(dtype);
}

RecurrentStates rnn_step(Nonlinearity nonlinearity, const Tensor &weight_hh,
                         const Tensor &from_input, const RecurrentStates &states) {
  Tensor sum = from_input + weft::linear(states[0], weight_hh);
  return {nonlinearity == Nonlinearity::kTanh ? tanh(sum) : relu(sum)};
}

RecurrentStates lstm_step(const Tensor &weight_hh, const Tensor &from_input,
                          const RecurrentStates &states) {
  std::vector<Tensor> gates = (from_input + weft::linear(states[0], weight_hh)).chunk(4, 1);
  Tensor next = sigmoid(gates[1]) * states[1] + sigmoid(gates[0]) * tanh(gates[2]);
  return {sigmoid(gates[3]) * tanh(next), next};
}

// The state's bias of n' is weighed by R, so that it cannot join the input's.
RecurrentStates gru_step(const Tensor &weight_hh, const Tensor &bias_hh, const Tensor &from_input,
                         const RecurrentStates &states) {
  std::vector<Tensor> xs = from_input.chunk(3, 1),
                      hs = weft::linear(states[0], weight_hh, bias_hh).chunk(3, 1);
  Tensor reset = sigmoid(xs[0] + hs[0]), update = sigmoid(xs[1] + hs[1]),
         fresh = tanh(xs[2] + reset * hs[2]);
  return {fresh + update * (states[0] - fresh)};
}

} // namespace weft::nn
