// Samples of distributions, from uniform and normal ones by the inverses of their distribution
// functions.
#include <cmath>
#include <numbers>

#include "frontend/ops/promotion.h"
#include "frontend/recorder/record/recorder.h"
#include "frontend/tensor/impl.h"
#include "weft/composites.h"
#include "weft/random.h"

namespace weft {

using namespace recorder;

namespace {

void want_positive(double value, const char *name) {
  if (!(value > 0 && std::isfinite(value)))
    fail(ErrorKind::kValue,
         std::string(name) + " is " + std::to_string(value) + "; it must be positive");
}

DType wide(DType dtype) {
  if (!is_floating(dtype))
    fail(ErrorKind::kDType, std::string("samples are floating-point numbers, not ") + name(dtype));
  return computing_dtype(dtype);
}

// With the mean 1. Half of the least sample stands for 0, of which there is no logarithm and no
// reciprocal.
Tensor exponential_samples(const Shape &shape, DType dtype, Generator &generator) {
  double least = std::ldexp(1.0, dtype == float64 ? -54 : -25);
  return clamp(-log1p(-rand(shape, generator, dtype)), least);
}

} // namespace

Tensor exponential(const Shape &shape, double rate, DType dtype, Generator &generator,
                   Location location) {
  Session session("exponential", location);
  want_positive(rate, "rate");
  return (exponential_samples(shape, wide(dtype), generator) / rate).to(dtype);
}

Tensor geometric(const Shape &shape, double p, DType dtype, Generator &generator,
                 Location location) {
  Session session("geometric", location);
  if (!(p > 0 && p <= 1))
    fail(ErrorKind::kValue, "p is " + std::to_string(p) + "; it must be in (0, 1]");
  // Of p = 1 the quotient is 0.
  Tensor trials = ceil(exponential_samples(shape, wide(dtype), generator) / -std::log1p(-p));
  return clamp(trials, 1).to(dtype);
}

Tensor cauchy(const Shape &shape, double median, double scale, DType dtype, Generator &generator,
              Location location) {
  Session session("cauchy", location);
  want_positive(scale, "scale");
  Tensor angle = (rand(shape, generator, wide(dtype)) - 0.5) * std::numbers::pi;
  return (tan(angle) * scale + median).to(dtype);
}

Tensor log_normal(const Shape &shape, double mean, double deviation, DType dtype,
                  Generator &generator, Location location) {
  Session session("log_normal", location);
  return exp(normal(shape, mean, deviation, wide(dtype), generator)).to(dtype);
}

Tensor laplace(const Shape &shape, double mean, double scale, DType dtype, Generator &generator,
               Location location) {
  Session session("laplace", location);
  want_positive(scale, "scale");
  // The difference of two exponential ones.
  Tensor above = exponential_samples(shape, wide(dtype), generator),
         below = exponential_samples(shape, wide(dtype), generator);
  return ((above - below) * scale + mean).to(dtype);
}

Tensor gumbel_softmax(const Tensor &logits, double tau, bool hard, int64_t dim,
                      Generator &generator, Location location) {
  Session session("gumbel_softmax", location);
  want_positive(tau, "tau");
  Var given = floating_only(logits, "logits");
  Tensor input = wrap(widened(given));
  int64_t axis = normalize_dim(dim, input.ndim(), "dim");
  BesideTensor beside(logits);
  Tensor noise = -log(exponential_samples(input.shape(), input.dtype(), generator));
  Tensor soft = softmax((input + noise) / tau, axis);
  if (hard) {
    Tensor place = argmax(soft.detach(), axis, true),
           one = scatter(zeros_like(soft.detach()), axis, place, 1.0);
    soft = one - soft.detach() + soft;
  }
  return soft.to(given.dtype());
}

} // namespace weft
