// Exponential moving averages of parameters, to evaluate with (Polyak and Juditsky 1992).
#pragma once

#include "weft/nn/module.h"
#include "weft/tensor.h"

namespace weft::optim {

// Averages that start as the parameters are and follow them: a = decay * a + (1 - decay) * p at
// each update(). Averages of parameters of which ranks have parts are cut as those are. One that
// was moved from throws Error until it is assigned another.
class ExponentialMovingAverage {
public:
  // Throws Error when there are no parameters, one is undefined or not floating point, and unless 0
  // <= decay <= 1.
  ExponentialMovingAverage(std::vector<Tensor> parameters, double decay = 0.999,
                           Location location = Location::current());
  // After an optimizer's step(). Submits its program without waiting for it (reason `step`).
  void update(Location location = Location::current());
  // In the order of the parameters.
  const std::vector<Tensor> &averages() const {
    return averages_;
  }
  // Exchanges the values of parameters and averages: before evaluation and once more after it.
  void swap(Location location = Location::current());
  // "average.0", ... for a checkpoint.
  nn::NamedTensors state(Location location = Location::current()) const;
  // Throws Error, before anything is written, when a name is missing or a shape or dtype differs.
  void load_state(const nn::NamedTensors &tensors, Location location = Location::current());

private:
  // Fails, in the name of what is called, where it was moved from.
  void want_held(const char *what, Location location) const;

  std::vector<Tensor> parameters_, averages_;
  double decay_;
};

} // namespace weft::optim
