#include "weft/nn/init.h"

#include <cmath>

#include "weft/eval.h"

namespace weft::nn::init {

Fans fans(const Shape &shape, Location location) {
  if (shape.size() < 2)
    throw Error(ErrorKind::kShape, "init: fan-in and fan-out need a shape of at least 2 dimensions, it is " + to_string(shape),
                CallerScope::resolve(location));
  double field = 1;
  for (size_t i = 2; i < shape.size(); ++i) field *= static_cast<double>(shape[i]);
  return {static_cast<double>(shape[1]) * field, static_cast<double>(shape[0]) * field};
}

Tensor constant(const Shape &shape, double value, DType dtype, Location location) {
  location = CallerScope::resolve(location);
  int64_t count = 1;
  for (int64_t dim : shape) count *= dim;
  if (dtype == float64) return Tensor::from(std::vector<double>(count, value), shape, location);
  if (dtype == float32) return Tensor::from(std::vector<float>(count, static_cast<float>(value)), shape, location);
  return full(shape, value, dtype, location);
}

Tensor uniform(const Shape &shape, double bound, Location location) {
  return weft::uniform(shape, -bound, bound, float32, default_generator(), location);
}

Tensor normal(const Shape &shape, double mean, double deviation, Location location) {
  return weft::normal(shape, mean, deviation, float32, default_generator(), location);
}

Tensor xavier_uniform(const Shape &shape, double gain, Location location) {
  Fans f = fans(shape, location);
  return uniform(shape, gain * std::sqrt(6.0 / (f.in + f.out)), location);
}

Tensor kaiming_uniform(const Shape &shape, double slope, Location location) {
  return uniform(shape, std::sqrt(6.0 / ((1 + slope * slope) * fans(shape, location).in)), location);
}

void submit(std::vector<Tensor> tensors, Location location) {
  tensors.push_back(default_generator().state_storage());
  submit_init(tensors, location);
}

} // namespace weft::nn::init
