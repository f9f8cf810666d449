// What networks share: levels of names, a convolution with its normalization, gates on channels,
// and how weights start.
#pragma once

#include "weft/nn/nn.h"

namespace weft::models {

// A level of names without parameters of its own: PyTorch's ModuleList and ModuleDict.
class Group : public nn::Module {
public:
  // Registers the module under this name, and returns it.
  template <typename M>
  M add(const std::string &name, M module, Location location = Location::current()) {
    return child(name, std::move(module), location);
  }
  // Under the number of modules that were added to it so.
  template <typename M> M append(M module, Location location = Location::current()) {
    return child(std::to_string(count_++), std::move(module), location);
  }

private:
  int64_t count_ = 0;
};

// What follows a normalization.
enum class Activation { kNone, kReLU, kReLU6, kSiLU, kHardswish };
// x under it.
Tensor activate(const Tensor &x, Activation activation, Location location = Location::current());

// The batch norm of networks here: it counts batches, as the files of PyTorch's modules do.
nn::BatchNorm2d batch_norm(int64_t channels, double eps = 1e-5, double momentum = 0.1,
                           Location location = Location::current());
// A convolution whose weight starts normal, so that backward keeps the variance under ReLU (He et
// al. 2015, by fan-out), and whose bias, if it has one, starts as 0.
nn::Conv2d convolution(int64_t in, int64_t out, Pair kernel_size, nn::Conv2dOptions options = {},
                       Location location = Location::current());
// A linear layer whose weight starts normal with this deviation, and whose bias starts as 0.
nn::Linear linear_normal(int64_t in, int64_t out, double deviation,
                         Location location = Location::current());

// The multiple of divisor next to value, at least divisor, and not below 0.9 of value.
int64_t round_channels(double value, int64_t divisor = 8);

struct ConvNormOptions {
  Pair stride = 1;
  int64_t groups = 1;
  Activation activation = Activation::kReLU;
  double eps = 1e-5, momentum = 0.1; // of the batch norm
};

// Convolution without bias, batch norm, activation; torchvision's Conv2dNormActivation. The padding
// keeps the image's size at stride 1. Children: "0" the convolution, "1" the batch norm.
class ConvNorm : public nn::Module {
public:
  ConvNorm(int64_t in, int64_t out, int64_t kernel_size, ConvNormOptions options = {},
           Location location = Location::current());

  // x: [N, in, H, W] -> [N, out, H', W'].
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

  nn::Conv2d convolution;
  nn::BatchNorm2d norm;

private:
  Activation activation_;
};

// How a gate ends: in sigmoid or hardsigmoid.
enum class Gate { kSigmoid, kHardsigmoid };

// x times a gate for each of its channels, made of their means (Hu et al. 2018): fc2(inner(fc1(
// mean))).
class SqueezeExcitation : public nn::Module {
public:
  SqueezeExcitation(int64_t channels, int64_t squeezed, Activation inner, Gate gate,
                    Location location = Location::current());

  // x: [N, channels, H, W] -> the same.
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

  nn::Conv2d fc1, fc2; // of 1 x 1 images

private:
  Activation inner_;
  Gate gate_;
};

// In training each sample of x is 0 with probability `rate`, else it is over 1 - rate (Huang et al.
// 2016, by rows); in evaluation x itself.
class StochasticDepth : public nn::Module {
public:
  // Throws Error unless 0 <= rate < 1.
  explicit StochasticDepth(double rate, Location location = Location::current());

  // x: [N, ..] -> the same.
  Tensor operator()(const Tensor &x, Location location = Location::current()) const;

private:
  double rate_;
};

// The mean of each channel, flat: x [N, C, H, W] -> [N, C].
Tensor pool_flat(const Tensor &x, Location location = Location::current());

// Throws Error (kShape) at the caller's line unless ids are the next tokens, [batch, T], of the
// cache's texts.
void check_next(const Tensor &ids, const nn::KeyValueCache &cache, const char *model,
                Location location);

// Throws Error (kValue) "MODEL: what" at the caller's line unless it holds.
void require(bool holds, const char *model, const std::string &what, Location location);

} // namespace weft::models
