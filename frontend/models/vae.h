// A variational autoencoder with one hidden layer on each side (Kingma and Welling 2014,
// "Auto-Encoding Variational Bayes").
#pragma once

#include "weft/models/blocks.h"
#include "weft/tensor_tree.h"

namespace weft::models {

// Numbers of a sample, of each hidden layer and of the latent vector. The defaults are made for
// digits of 28 x 28 pixels, flat.
struct VaeConfig {
  int64_t inputs = 784;
  int64_t hidden = 400;
  int64_t latent = 20;
};

// What a variational autoencoder gives: logits of the inputs, and the normal distribution that they
// were drawn through.
struct VaeResult {
  Tensor logits;             // [N, inputs]
  Tensor mean, log_variance; // [N, latent]
};
// For jit and trace.
void visit_tensors(VaeResult &result, TensorVisitor &visit);

// x [N, inputs] -> logits of x, by way of mean + noise * exp(log_variance / 2). Hidden layers use
// silu. Names are those of the members: "up.weight", ...
class Vae : public nn::Module {
public:
  // Throws Error when a size is below 1.
  explicit Vae(const VaeConfig &config = {}, Location location = Location::current());

  // x: [N, inputs]; noise: standard normal, [N, latent].
  VaeResult operator()(const Tensor &x, const Tensor &noise,
                       Location location = Location::current()) const;
  // With noise of the default generator.
  VaeResult operator()(const Tensor &x, Location location = Location::current()) const;

  nn::Linear up, mean, spread; // the encoder: inputs to hidden, and to mean and log-variance
  nn::Linear down, out;        // the decoder
};

// The bound that training maximizes, negated, of a batch of x in [0, 1]: the sum over the elements
// of cross entropy and divergence from the standard normal, over the number of samples.
Tensor vae_loss(const VaeResult &result, const Tensor &x, Location location = Location::current());

} // namespace weft::models
