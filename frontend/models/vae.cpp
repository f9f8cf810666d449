#include "weft/models/vae.h"

#include "weft/models/registry.h"
#include "weft/random.h"

namespace weft::models {

void visit_tensors(VaeResult &result, TensorVisitor &visit) {
  visit(result.logits);
  visit(result.mean);
  visit(result.log_variance);
}

Vae::Vae(const VaeConfig &config, Location location)
    : up(config.inputs, config.hidden, {}, location),
      mean(config.hidden, config.latent, {}, location),
      spread(config.hidden, config.latent, {}, location),
      down(config.latent, config.hidden, {}, location),
      out(config.hidden, config.inputs, {}, location) {
  child("up", up, location);
  child("mean", mean, location);
  child("spread", spread, location);
  child("down", down, location);
  child("out", out, location);
}

VaeResult Vae::operator()(const Tensor &x, const Tensor &noise, Location location) const {
  nn::ModuleCall scope(*this, location);
  Tensor h = silu(up(x));
  VaeResult result{.logits = {}, .mean = mean(h), .log_variance = spread(h)};
  Tensor z = result.mean + noise * exp(0.5 * result.log_variance);
  result.logits = out(silu(down(z)));
  return result;
}

VaeResult Vae::operator()(const Tensor &x, Location location) const {
  nn::ModuleCall scope(*this, location);
  Shape shape = x.shape();
  shape.back() = mean.bias.size(0);
  return (*this)(x, randn(shape, x.dtype()));
}

Tensor vae_loss(const VaeResult &result, const Tensor &x, Location location) {
  CallerScope scope(location);
  Tensor divergence =
      -0.5 * (1 + result.log_variance - result.mean.square() - exp(result.log_variance)).sum();
  Tensor cross_entropy = binary_cross_entropy_with_logits(result.logits, x, Reduction::kSum);
  return (cross_entropy + divergence) / x.size(0);
}

namespace {
const Registration<Vae> vae({.name = "vae",
                             .kind = "autoencoder",
                             .source = "Kingma and Welling 2014, Auto-Encoding Variational Bayes",
                             .inputs = {{.sample = {784}}, {.sample = {20}}}},
                            VaeConfig());
} // namespace

} // namespace weft::models
