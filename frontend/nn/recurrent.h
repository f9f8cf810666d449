// Recurrent layers: RNN (Elman 1990), LSTM (Hochreiter and Schmidhuber 1997, with forget gates),
// GRU (Cho et al. 2014), with PyTorch's formulas, shapes and names of parameters. The recorder
// unrolls them: a sequence of T steps is T times the ops of one, and each length is a program of
// its own. Batches of many sizes share one with batch_first.
#pragma once

#include <functional>
#include <vector>

#include "weft/nn/module.h"

namespace weft::nn {

enum class Nonlinearity { kTanh, kReLU };

struct LSTMOptions {
  int64_t num_layers = 1; // each reads what the one below gives
  bool bias = true;
  bool batch_first = false; // x and output are [B, T, ..] and not [T, B, ..]; the states are [..,
                            // B, ..] all the same
  double dropout = 0;       // in training, on the output of every layer but the last
  bool bidirectional =
      false; // each layer has a second half that reads from the end; outputs stand side by side
};
using GRUOptions = LSTMOptions;
struct RNNOptions {
  int64_t num_layers = 1;
  Nonlinearity nonlinearity = Nonlinearity::kTanh;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;
  bool bidirectional = false;
};

// For D = 2 with bidirectional, else 1: output [T, B, D * hidden], what the last layer gave at each
// step; hidden [num_layers * D, B, hidden], every layer's last state, forward before backward.
// Without a batch, as x is, both lack B.
struct RecurrentResult {
  Tensor output, hidden;
};
struct LSTMResult {
  Tensor output, hidden, cell; // cell: as hidden
};

// What the three share. Parameters are named as PyTorch's: weight_ih_l0 [gates * hidden, input],
// weight_hh_l0 [gates * hidden, hidden], bias_ih_l0 and bias_hh_l0 [gates * hidden],
// ..._l0_reverse, ..._l1, ...; all start uniform over [-1 / sqrt(hidden), 1 / sqrt(hidden)).
class Recurrent : public Module {
public:
  int64_t input_size() const {
    return input_;
  }
  int64_t hidden_size() const {
    return hidden_;
  }

protected:
  // Throws Error when a size or num_layers is below 1, or unless 0 <= dropout < 1.
  Recurrent(const char *name, int64_t gates, int64_t input, int64_t hidden, LSTMOptions options,
            Location location);

  // The parameters of one direction of one layer.
  struct Half {
    Parameter weight_ih, weight_hh, bias_ih, bias_hh;
  };
  // One step: from the input's share of the gates [B, gates * hidden] and the states [B, hidden] to
  // the new states, the first of which is the output.
  using States = std::vector<Tensor>;
  using Step =
      std::function<States(const Half &half, const Tensor &from_input, const States &states)>;
  // Whether bias_hh is added beside bias_ih, once for all steps, and is none of the step's
  // business.
  enum class Bias { kJoined, kApart };
  // initial: [num_layers * D, B, hidden] each, undefined for zeros. Returns the output and the last
  // states. Throws Error when x or a state has another shape or dtype.
  States run(const Tensor &x, const States &initial, Bias bias, const Step &step) const;

  const char *name_;
  int64_t input_, hidden_;
  LSTMOptions options_;
  std::vector<Half> halves_; // by layer, then direction

private:
  // By state, then half: [B, hidden] each. Throws as run().
  std::vector<States> initial_states(const States &initial, bool batched, int64_t batch) const;
};

// x: [T, B, input], [B, T, input] with batch_first, or [T, input]. h' = tanh(W_ih x + b_ih + W_hh h
// + b_hh), or relu of it.
class RNN : public Recurrent {
public:
  RNN(int64_t input, int64_t hidden, RNNOptions options = {},
      Location location = Location::current());
  // hidden: the state to start from, shaped as the result's; zeros if undefined.
  RecurrentResult operator()(const Tensor &x, const Tensor &hidden = Tensor(),
                             Location location = Location::current()) const;

private:
  Nonlinearity nonlinearity_;
};

// [i f g o] = W_ih x + b_ih + W_hh h + b_hh; c' = sigmoid(f) c + sigmoid(i) tanh(g), h' =
// sigmoid(o) tanh(c').
class LSTM : public Recurrent {
public:
  LSTM(int64_t input, int64_t hidden, LSTMOptions options = {},
       Location location = Location::current());
  // hidden and cell: the states to start from, both or none.
  LSTMResult operator()(const Tensor &x, const Tensor &hidden = Tensor(),
                        const Tensor &cell = Tensor(),
                        Location location = Location::current()) const;
};

// [r z n] = W_ih x + b_ih, [r' z' n'] = W_hh h + b_hh; with R = sigmoid(r + r'), Z = sigmoid(z +
// z'), N = tanh(n + R n'): h' = (1 - Z) N + Z h.
class GRU : public Recurrent {
public:
  GRU(int64_t input, int64_t hidden, GRUOptions options = {},
      Location location = Location::current());
  RecurrentResult operator()(const Tensor &x, const Tensor &hidden = Tensor(),
                             Location location = Location::current()) const;
};

} // namespace weft::nn
