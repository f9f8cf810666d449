#include "weft/nn/recurrent.h"
#include "weft/autocast.h"

#include <cmath>

#include "weft/nn/init.h"
#include "weft/nn/recurrent_step.h"
#include "weft/ops.h"

namespace weft::nn {

//===-- What they share -----------------------------------------------------------------------===//

Recurrent::Recurrent(const char *name, int64_t gates, int64_t input, int64_t hidden,
                     LSTMOptions options, Location location)
    : name_(name), input_(input), hidden_(hidden), options_(options) {
  CallerScope scope(location);
  auto fail = [&](const std::string &why) {
    fail_at(location, ErrorKind::kValue, std::string(name) + ": " + why);
  };
  check_recurrent_sizes(name, input, hidden, location);
  if (options.num_layers < 1)
    fail("num_layers must be at least 1, it is " + std::to_string(options.num_layers));
  if (!(options.dropout >= 0 && options.dropout < 1))
    fail("dropout must be at least 0 and below 1, it is " + std::to_string(options.dropout));
  int64_t directions = options.bidirectional ? 2 : 1;
  std::vector<std::pair<std::string, Tensor>> drawn;
  double bound = 1 / std::sqrt(static_cast<double>(hidden));
  for (int64_t layer = 0; layer < options.num_layers; ++layer)
    for (int64_t direction = 0; direction < directions; ++direction) {
      std::string suffix = "_l" + std::to_string(layer) + (direction == 1 ? "_reverse" : "");
      int64_t reads = layer == 0 ? input : hidden * directions;
      drawn.emplace_back("weight_ih" + suffix, init::uniform({gates * hidden, reads}, bound));
      drawn.emplace_back("weight_hh" + suffix, init::uniform({gates * hidden, hidden}, bound));
      if (!options.bias)
        continue;
      drawn.emplace_back("bias_ih" + suffix, init::uniform({gates * hidden}, bound));
      drawn.emplace_back("bias_hh" + suffix, init::uniform({gates * hidden}, bound));
    }
  std::vector<Tensor> tensors;
  for (const auto &[key, tensor] : drawn)
    tensors.push_back(tensor);
  init::submit(tensors); // one program for all
  for (size_t i = 0; i < drawn.size();) {
    auto next = [&] {
      const auto &[key, tensor] = drawn[i++];
      return parameter(key, tensor);
    };
    Half half;
    // In this order: a braced list would do, but says it less.
    half.weight_ih = next();
    half.weight_hh = next();
    if (options.bias) {
      half.bias_ih = next();
      half.bias_hh = next();
    }
    halves_.push_back(std::move(half));
  }
}

std::vector<Recurrent::States> Recurrent::initial_states(const States &initial, bool batched,
                                                         int64_t batch) const {
  int64_t halves = static_cast<int64_t>(halves_.size());
  DType dtype = halves_[0].weight_hh.dtype();
  Shape wanted = batched ? Shape{halves, batch, hidden_} : Shape{halves, hidden_};
  std::vector<States> states;
  DeviceScope scope(halves_[0].weight_hh.device());
  for (const Tensor &state : initial) {
    if (!state.defined()) {
      states.emplace_back(halves_.size(), zeros({batch, hidden_}, dtype));
      continue;
    }
    Tensor cast =
        recurrent_state(name_, &state == &initial[0] ? "hidden" : "cell", state, wanted, dtype);
    if (!batched)
      cast = cast.unsqueeze(1);
    states.push_back(cast.unbind(0));
  }
  return states;
}

Recurrent::States Recurrent::run(const Tensor &given, const States &initial, Bias bias,
                                 const Step &step) const {
  auto fail = [&](const std::string &why) {
    fail_at(Location::current(), ErrorKind::kShape,
            std::string(name_) + ": x is " + weft::name(given.dtype()) + " " +
                to_string(given.shape()) + why);
  };
  bool batched = given.ndim() == 3;
  const char *form = options_.batch_first ? "[B, T, " : "[T, B, ";
  if ((given.ndim() != 2 && !batched) || given.shape().back() != input_)
    fail("; it must be " + std::string(form) + std::to_string(input_) + "], or [T, " +
         std::to_string(input_) + "] without a batch");
  DType dtype = halves_[0].weight_ih.dtype();
  // Time stays where it is: with the batch in front, one program serves batches of many sizes.
  const int64_t time = batched && options_.batch_first ? 1 : 0;
  Tensor x = recurrent_input(name_, given, dtype);
  if (!batched)
    x = x.unsqueeze(1);
  int64_t length = x.size(time), batch = x.size(1 - time);
  if (length == 0)
    fail("; a sequence needs at least one step");
  std::vector<States> start = initial_states(initial, batched, batch);

  size_t directions = options_.bidirectional ? 2 : 1;
  std::vector<States> last(initial.size()); // by state, then half
  for (size_t first = 0; first < halves_.size(); first += directions) {
    if (first > 0 && options_.dropout > 0 && training())
      x = weft::dropout(x, options_.dropout, true, default_generator());
    std::vector<Tensor> sides;
    for (size_t direction = 0; direction < directions; ++direction) {
      const Half &half = halves_[first + direction];
      // The input's share of all steps is one product.
      Tensor offset = half.bias_ih;
      if (offset.defined() && bias == Bias::kJoined)
        offset = half.bias_ih + half.bias_hh;
      Tensor from_input = weft::linear(x, half.weight_ih, offset);
      States states;
      for (const States &halves : start)
        states.push_back(halves[first + direction]);
      std::vector<Tensor> outputs(static_cast<size_t>(length));
      for (int64_t i = 0; i < length; ++i) {
        int64_t t = direction == 0 ? i : length - 1 - i;
        states = step(half, from_input.select(time, t), states);
        outputs[static_cast<size_t>(t)] = states[0];
      }
      for (size_t s = 0; s < states.size(); ++s)
        last[s].push_back(states[s]);
      sides.push_back(stack(outputs, time));
    }
    x = directions == 1 ? sides[0] : cat(sides, 2);
  }
  States results = {batched ? x : x.squeeze(1)};
  for (const States &state : last) {
    // In memory, too, the batch is in front where it is so in x.
    Tensor all = time == 1 ? stack(state, 1).transpose(0, 1) : stack(state, 0);
    results.push_back(batched ? all : all.squeeze(1));
  }
  // Under a scope results have one dtype, whichever of the steps was a product.
  if (autocast_dtype() && dtype == DType::kFloat32)
    for (Tensor &result : results)
      result = result.to(*autocast_dtype());
  return results;
}

//===-- RNN -----------------------------------------------------------------------------------===//

RNN::RNN(int64_t input, int64_t hidden, RNNOptions options, Location location)
    : Recurrent("RNN", 1, input, hidden,
                {options.num_layers, options.bias, options.batch_first, options.dropout,
                 options.bidirectional},
                location),
      nonlinearity_(options.nonlinearity) {}

RecurrentResult RNN::operator()(const Tensor &x, const Tensor &hidden, Location location) const {
  ModuleCall scope(*this, location);
  States results = run(x, {hidden}, Bias::kJoined,
                       [&](const Half &half, const Tensor &from_input, const States &states) {
                         return rnn_step(nonlinearity_, half.weight_hh, from_input, states);
                       });
  return {results[0], results[1]};
}

//===-- LSTM ----------------------------------------------------------------------------------===//

LSTM::LSTM(int64_t input, int64_t hidden, LSTMOptions options, Location location)
    : Recurrent("LSTM", 4, input, hidden, options, location) {}

LSTMResult LSTM::operator()(const Tensor &x, const Tensor &hidden, const Tensor &cell,
                            Location location) const {
  ModuleCall scope(*this, location);
  if (hidden.defined() != cell.defined())
    fail_at(location, ErrorKind::kValue, "LSTM: hidden and cell must both be given, or none");
  States results = run(x, {hidden, cell}, Bias::kJoined,
                       [](const Half &half, const Tensor &from_input, const States &states) {
                         return lstm_step(half.weight_hh, from_input, states);
                       });
  return {results[0], results[1], results[2]};
}

//===-- GRU -----------------------------------------------------------------------------------===//

GRU::GRU(int64_t input, int64_t hidden, GRUOptions options, Location location)
    : Recurrent("GRU", 3, input, hidden, options, location) {}

RecurrentResult GRU::operator()(const Tensor &x, const Tensor &hidden, Location location) const {
  ModuleCall scope(*this, location);
  States results = run(x, {hidden}, Bias::kApart,
                       [](const Half &half, const Tensor &from_input, const States &states) {
                         return gru_step(half.weight_hh, half.bias_hh, from_input, states);
                       });
  return {results[0], results[1]};
}

} // namespace weft::nn
