// One step of RNN, LSTM and GRU, and the checks of what it takes: for layers and cells alike.
// Private to the library.
#pragma once

#include <vector>

#include "weft/nn/module.h"

namespace weft::nn {

enum class Nonlinearity;

// Throws Error when a size is below 1.
void check_recurrent_sizes(const char *module, int64_t input, int64_t hidden, Location location);
// x in the parameters' dtype. Throws Error unless it has that; under an Autocast scope any floating
// one will do.
Tensor recurrent_input(const char *module, const Tensor &x, DType dtype);
// A state, which errors call `argument`, in the parameters' dtype. Throws Error as
// recurrent_input() does, and for another shape.
Tensor recurrent_state(const char *module, const char *argument, const Tensor &state,
                       const Shape &shape, DType dtype);

// New states [B, hidden], the first of which is the output, from those before and the input's share
// of the gates, W_ih x + b_ih [B, gates * hidden]. In the first two b_hh is part of that share.
using RecurrentStates = std::vector<Tensor>;
RecurrentStates rnn_step(Nonlinearity nonlinearity, const Tensor &weight_hh,
                         const Tensor &from_input, const RecurrentStates &states);
RecurrentStates lstm_step(const Tensor &weight_hh, const Tensor &from_input,
                          const RecurrentStates &states);
RecurrentStates gru_step(const Tensor &weight_hh, const Tensor &bias_hh, const Tensor &from_input,
                         const RecurrentStates &states);

} // namespace weft::nn
