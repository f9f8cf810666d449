// Cells: one step of the layers in weft/nn/recurrent.h, for loops of one's own, with PyTorch's
// shapes and names of parameters. As of layers, T steps are T times the ops of one.
#pragma once

#include <utility>

#include "weft/nn/recurrent.h"

namespace weft::nn {

struct RecurrentCellOptions {
  bool bias = true;
};
struct RNNCellOptions {
  Nonlinearity nonlinearity = Nonlinearity::kTanh;
  bool bias = true;
};

// What the three share.
class RecurrentCell : public Module {
public:
  // The size of x's last dim.
  int64_t input_size() const {
    return weight_ih.shape()[1];
  }
  // The size of a state's last dim.
  int64_t hidden_size() const {
    return weight_hh.shape()[1];
  }

  // [gates * hidden, input], [gates * hidden, hidden] and [gates * hidden] twice; all start uniform
  // over [-1 / sqrt(hidden), 1 / sqrt(hidden)). Biases that are left out are undefined.
  Parameter weight_ih, weight_hh, bias_ih, bias_hh;

protected:
  // Throws Error when a size is below 1.
  RecurrentCell(const char *name, int64_t gates, int64_t input, int64_t hidden, bool bias,
                Location location);

  // Makes step(input's share of the gates, states) of x and the states, undefined ones of which are
  // zeros, and gives the new states. is_joined: the step's bias is part of that share. Throws Error
  // when x or a state has another shape or dtype.
  template <typename Step>
  std::vector<Tensor> run(const Tensor &x, const std::vector<Tensor> &states, bool is_joined,
                          const Step &step) const;

private:
  const char *name_;
};

// x: [B, input], hidden and the result: [B, hidden]; or all without B. The state to start from is
// zeros if undefined. h' as of RNN.
class RNNCell : public RecurrentCell {
public:
  RNNCell(int64_t input, int64_t hidden, RNNCellOptions options = {},
          Location location = Location::current());
  Tensor operator()(const Tensor &x, const Tensor &hidden = Tensor(),
                    Location location = Location::current()) const;

private:
  Nonlinearity nonlinearity_;
};

// x: [B, input], hidden and cell: [B, hidden], both or none; or all without B. Gives h' and c' of
// LSTM: std::tie(h, c) = cell(x, h, c).
class LSTMCell : public RecurrentCell {
public:
  LSTMCell(int64_t input, int64_t hidden, RecurrentCellOptions options = {},
           Location location = Location::current());
  std::pair<Tensor, Tensor> operator()(const Tensor &x, const Tensor &hidden = Tensor(),
                                       const Tensor &cell = Tensor(),
                                       Location location = Location::current()) const;
};

// As RNNCell; h' as of GRU.
class GRUCell : public RecurrentCell {
public:
  GRUCell(int64_t input, int64_t hidden, RecurrentCellOptions options = {},
          Location location = Location::current());
  Tensor operator()(const Tensor &x, const Tensor &hidden = Tensor(),
                    Location location = Location::current()) const;
};

} // namespace weft::nn
