// Activations as modules, for Sequential.
#pragma once

#include "weft/nn/module.h"
#include "weft/ops.h"

namespace weft::nn {

struct ReLU : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const { return weft::relu(x, location); }
};
struct Tanh : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const { return weft::tanh(x, location); }
};
struct Sigmoid : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const { return weft::sigmoid(x, location); }
};
// The exact form, with erf (Hendrycks and Gimpel 2016).
struct GELU : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const { return weft::gelu(x, "none", location); }
};

} // namespace weft::nn
