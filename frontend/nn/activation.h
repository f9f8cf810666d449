// Activations as modules, for Sequential.
#pragma once

#include "weft/nn/module.h"
#include "weft/ops.h"

namespace weft::nn {

struct ReLU : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::relu(x, location);
  }
};
struct Tanh : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::tanh(x, location);
  }
};
struct Sigmoid : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::sigmoid(x, location);
  }
};
// The exact form, with erf, or approximate = "tanh" (Hendrycks and Gimpel 2016).
struct GELU : Module {
  explicit GELU(std::string approximate = "none") : approximate(std::move(approximate)) {}
  std::string approximate;
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::gelu(x, approximate, location);
  }
};

struct SiLU : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::silu(x, location);
  }
};
struct ELU : Module {
  explicit ELU(double alpha = 1) : alpha(alpha) {}
  double alpha;
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::elu(x, alpha, location);
  }
};
struct SELU : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::selu(x, location);
  }
};
struct LeakyReLU : Module {
  explicit LeakyReLU(double slope = 0.01) : slope(slope) {}
  double slope;
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::leaky_relu(x, slope, location);
  }
};
struct Softplus : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::softplus(x, location);
  }
};
struct LogSigmoid : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::log_sigmoid(x, location);
  }
};
struct Mish : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::mish(x, location);
  }
};
struct Hardsigmoid : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::hardsigmoid(x, location);
  }
};
struct Hardswish : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::hardswish(x, location);
  }
};
struct Hardtanh : Module {
  explicit Hardtanh(double low = -1, double high = 1) : low(low), high(high) {}
  double low, high;
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::hardtanh(x, low, high, location);
  }
};
struct ReLU6 : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::relu6(x, location);
  }
};
struct Softsign : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::softsign(x, location);
  }
};
struct Tanhshrink : Module {
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::tanhshrink(x, location);
  }
};
struct Hardshrink : Module {
  explicit Hardshrink(double lambda = 0.5) : lambda(lambda) {}
  double lambda;
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::hardshrink(x, lambda, location);
  }
};
struct Softshrink : Module {
  explicit Softshrink(double lambda = 0.5) : lambda(lambda) {}
  double lambda;
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::softshrink(x, lambda, location);
  }
};
struct CELU : Module {
  explicit CELU(double alpha = 1) : alpha(alpha) {}
  double alpha;
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::celu(x, alpha, location);
  }
};
struct GLU : Module {
  explicit GLU(int64_t dim = -1) : dim(dim) {}
  int64_t dim;
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::glu(x, dim, location);
  }
};
// weight: [channels], learnt, `start` at first; with one, for all channels.
struct PReLU : Module {
  explicit PReLU(int64_t channels = 1, double start = 0.25, Location location = Location::current())
      : weight(parameter("weight", full({channels}, start, float32, location), location)) {}
  Parameter weight;
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::prelu(x, weight, location);
  }
};
struct Softmax : Module {
  explicit Softmax(int64_t dim) : dim(dim) {}
  int64_t dim;
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::softmax(x, dim, location);
  }
};
struct LogSoftmax : Module {
  explicit LogSoftmax(int64_t dim) : dim(dim) {}
  int64_t dim;
  Tensor operator()(const Tensor &x, Location location = Location::current()) const {
    return weft::log_softmax(x, dim, location);
  }
};

} // namespace weft::nn
