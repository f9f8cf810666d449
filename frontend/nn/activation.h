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
// The exact form, with erf, or approximate = "tanh" (Hendrycks and Gimpel 2016).
struct GELU : Module {
  explicit GELU(std::string approximate = "none") : approximate(std::move(approximate)) {}
  std::string approximate;
  Tensor operator()(const Tensor &x, Location location = Location::current()) const { return weft::gelu(x, approximate, location); }
};

struct SiLU : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const { return weft::silu(x, location); }
};
struct ELU : Module {
  explicit ELU(double alpha = 1) : alpha(alpha) {}
  double alpha;
  Tensor operator()(const Tensor &x, Location location = Location::current()) const { return weft::elu(x, alpha, location); }
};
struct SELU : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const { return weft::selu(x, location); }
};
struct LeakyReLU : Module {
  explicit LeakyReLU(double slope = 0.01) : slope(slope) {}
  double slope;
  Tensor operator()(const Tensor &x, Location location = Location::current()) const { return weft::leaky_relu(x, slope, location); }
};
struct Softplus : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const { return weft::softplus(x, location); }
};
struct LogSigmoid : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const { return weft::log_sigmoid(x, location); }
};
struct Mish : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const { return weft::mish(x, location); }
};
struct Hardsigmoid : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const { return weft::hardsigmoid(x, location); }
};
struct Hardswish : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const { return weft::hardswish(x, location); }
};
struct Softmax : Module {
  explicit Softmax(int64_t dim) : dim(dim) {}
  int64_t dim;
  Tensor operator()(const Tensor &x, Location location = Location::current()) const { return weft::softmax(x, dim, location); }
};
struct LogSoftmax : Module {
  explicit LogSoftmax(int64_t dim) : dim(dim) {}
  int64_t dim;
  Tensor operator()(const Tensor &x, Location location = Location::current()) const { return weft::log_softmax(x, dim, location); }
};

} // namespace weft::nn
