#include "weft/optim/ema.h"

#include "frontend/sharding/parts.h"
#include "frontend/tensor/impl.h"
#include "weft/autograd.h"
#include "weft/eval.h"
#include "weft/nn/init.h"
#include "weft/ops.h"

namespace weft::optim {

ExponentialMovingAverage::ExponentialMovingAverage(std::vector<Tensor> parameters, double decay,
                                                   Location location)
    : parameters_(std::move(parameters)), decay_(decay) {
  CallerScope scope(location);
  auto refuse = [&](ErrorKind kind, const std::string &what) {
    throw Error(kind, "ExponentialMovingAverage: " + what, location);
  };
  if (parameters_.empty())
    refuse(ErrorKind::kValue, "there are no parameters to average");
  if (!(decay >= 0 && decay <= 1))
    refuse(ErrorKind::kValue, "decay must lie in [0, 1], it is " + std::to_string(decay));
  NoGrad no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    std::string which = "parameter " + std::to_string(i);
    if (!parameters_[i].defined())
      refuse(ErrorKind::kState, which + " is undefined");
    if (!is_floating(parameters_[i].dtype()))
      refuse(ErrorKind::kDType,
             which + " is " + name(parameters_[i].dtype()) + ", not floating-point");
    // Of a parameter of which ranks have parts the average is cut as it is.
    averages_.push_back(recorder::value_for(parameters_[i], parameters_[i], location));
  }
  submit_init(averages_, location);
}

void ExponentialMovingAverage::want_held(const char *what, Location location) const {
  // There is at least one parameter until they are moved away.
  if (parameters_.empty())
    fail_at(location, ErrorKind::kState,
            std::string(what) + ": the ExponentialMovingAverage was moved from; use the one "
                                "that it was moved to");
}

void ExponentialMovingAverage::update(Location location) {
  want_held("update", location);
  CallerScope scope(location);
  NoGrad no_grad;
  auto record = [&] {
    for (size_t i = 0; i < averages_.size(); ++i)
      averages_[i].copy_(averages_[i] + (parameters_[i] - averages_[i]) * (1 - decay_));
    return averages_;
  };
  make_step(averages_, record, location);
}

void ExponentialMovingAverage::swap(Location location) {
  want_held("swap", location);
  CallerScope scope(location);
  NoGrad no_grad;
  std::vector<Tensor> written = averages_, before;
  written.insert(written.end(), parameters_.begin(), parameters_.end());
  // Values change places, and none is computed.
  for (const Tensor &tensor : written)
    before.push_back(tensor.clone());
  try {
    for (size_t i = 0, n = averages_.size(); i < n; ++i) {
      averages_[i].copy_(before[n + i]);
      parameters_[i].copy_(before[i]);
    }
    submit_step(written, location);
  } catch (...) {
    for (size_t i = 0; i < written.size(); ++i)
      try {
        written[i].copy_(before[i]);
      } catch (const Error &) { // what may not be written has not been
      }
    throw;
  }
}

nn::NamedTensors ExponentialMovingAverage::state(Location location) const {
  want_held("state", location);
  nn::NamedTensors state;
  for (size_t i = 0; i < averages_.size(); ++i)
    state.emplace_back("average." + std::to_string(i), averages_[i]);
  return state;
}

void ExponentialMovingAverage::load_state(const nn::NamedTensors &tensors, Location location) {
  want_held("load_state", location);
  location = CallerScope::resolve(location);
  std::vector<const Tensor *> found(averages_.size());
  for (size_t i = 0; i < averages_.size(); ++i) {
    std::string wanted = "average." + std::to_string(i);
    for (const auto &[key, tensor] : tensors)
      if (key == wanted)
        found[i] = &tensor;
    if (!found[i] || tensors.size() != averages_.size())
      throw Error(
          ErrorKind::kValue,
          "load_state: there must be " + std::to_string(averages_.size()) +
              " tensors, average.0 and so on; '" + wanted + "' is " +
              (found[i] ? "one of " + std::to_string(tensors.size()) : std::string("missing")),
          location);
    if (found[i]->shape() != averages_[i].shape() || found[i]->dtype() != averages_[i].dtype())
      throw Error(ErrorKind::kShape,
                  "load_state: '" + wanted + "' is " + name(averages_[i].dtype()) + " " +
                      to_string(averages_[i].shape()) + ", the given tensor is " +
                      name(found[i]->dtype()) + " " + to_string(found[i]->shape()),
                  location);
  }
  NoGrad no_grad;
  for (size_t i = 0; i < averages_.size(); ++i)
    averages_[i].copy_(recorder::value_for(averages_[i], *found[i], location), location);
  submit_init(averages_, location);
}

} // namespace weft::optim
