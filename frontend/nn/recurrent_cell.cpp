#include "weft/nn/recurrent_cell.h"

#include <cmath>

#include "weft/autocast.h"
#include "weft/nn/init.h"
#include "weft/nn/recurrent_step.h"
#include "weft/ops.h"

namespace weft::nn {

//===-- What they share -----------------------------------------------------------------------===//

RecurrentCell::RecurrentCell(const char *name, int64_t gates, int64_t input, int64_t hidden,
                             bool bias, Location location)
    : name_(name) {
  CallerScope scope(location);
  check_recurrent_sizes(name, input, hidden, location);
  double bound = 1 / std::sqrt(static_cast<double>(hidden));
  std::vector<Tensor> drawn = {init::uniform({gates * hidden, input}, bound),
                               init::uniform({gates * hidden, hidden}, bound)};
  for (int i = 0; bias && i < 2; ++i)
    drawn.push_back(init::uniform({gates * hidden}, bound));
  init::submit(drawn); // one program for all
  weight_ih = parameter("weight_ih", drawn[0]);
  weight_hh = parameter("weight_hh", drawn[1]);
  if (bias) {
    bias_ih = parameter("bias_ih", drawn[2]);
    bias_hh = parameter("bias_hh", drawn[3]);
  }
}

template <typename Step>
std::vector<Tensor> RecurrentCell::run(const Tensor &given, const std::vector<Tensor> &before,
                                       bool is_joined, const Step &step) const {
  bool batched = given.ndim() == 2;
  int64_t input = input_size(), hidden = hidden_size();
  if ((given.ndim() != 1 && !batched) || given.shape().back() != input)
    fail_at(Location::current(), ErrorKind::kShape,
            std::string(name_) + ": x has shape " + to_string(given.shape()) + "; it must be [B, " +
                std::to_string(input) + "], or [" + std::to_string(input) + "] without a batch");
  DType dtype = weight_ih.dtype();
  Tensor x = recurrent_input(name_, given, dtype);
  if (!batched)
    x = x.unsqueeze(0);
  RecurrentStates states;
  DeviceScope scope(weight_hh.device());
  for (const Tensor &state : before) {
    if (!state.defined()) {
      states.push_back(zeros({x.size(0), hidden}, dtype));
      continue;
    }
    Tensor cast = recurrent_state(name_, &state == &before[0] ? "hidden" : "cell", state,
                                  batched ? Shape{x.size(0), hidden} : Shape{hidden}, dtype);
    states.push_back(batched ? cast : cast.unsqueeze(0));
  }
  Tensor offset = bias_ih;
  if (offset.defined() && is_joined)
    offset = bias_ih + bias_hh;
  states = step(weft::linear(x, weight_ih, offset), states);
  for (Tensor &state : states) {
    if (!batched)
      state = state.squeeze(0);
    // Under a scope the results have one dtype, whichever of the step's ops was a product.
    if (autocast_dtype() && dtype == DType::kFloat32)
      state = state.to(*autocast_dtype());
  }
  return states;
}

//===-- The cells -----------------------------------------------------------------------------===//

RNNCell::RNNCell(int64_t input, int64_t hidden, RNNCellOptions options, Location location)
    : RecurrentCell("RNNCell", 1, input, hidden, options.bias, location),
      nonlinearity_(options.nonlinearity) {}

Tensor RNNCell::operator()(const Tensor &x, const Tensor &hidden, Location location) const {
  ModuleCall scope(*this, location);
  return run(x, {hidden}, /*is_joined=*/true,
             [&](const Tensor &from_input, const RecurrentStates &states) {
               return rnn_step(nonlinearity_, weight_hh, from_input, states);
             })[0];
}

LSTMCell::LSTMCell(int64_t input, int64_t hidden, RecurrentCellOptions options, Location location)
    : RecurrentCell("LSTMCell", 4, input, hidden, options.bias, location) {}

std::pair<Tensor, Tensor> LSTMCell::operator()(const Tensor &x, const Tensor &hidden,
                                               const Tensor &cell, Location location) const {
  ModuleCall scope(*this, location);
  if (hidden.defined() != cell.defined())
    fail_at(location, ErrorKind::kValue, "LSTMCell: hidden and cell must both be given, or none");
  RecurrentStates results = run(x, {hidden, cell}, /*is_joined=*/true,
                                [&](const Tensor &from_input, const RecurrentStates &states) {
                                  return lstm_step(weight_hh, from_input, states);
                                });
  return {results[0], results[1]};
}

GRUCell::GRUCell(int64_t input, int64_t hidden, RecurrentCellOptions options, Location location)
    : RecurrentCell("GRUCell", 3, input, hidden, options.bias, location) {}

Tensor GRUCell::operator()(const Tensor &x, const Tensor &hidden, Location location) const {
  ModuleCall scope(*this, location);
  return run(x, {hidden}, /*is_joined=*/false,
             [&](const Tensor &from_input, const RecurrentStates &states) {
               return gru_step(weight_hh, bias_hh, from_input, states);
             })[0];
}

} // namespace weft::nn
