#include "weft/nn/init.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "frontend/tensor/constant.h"
#include "frontend/tensor/impl.h"
#include "frontend/tensor/starting.h"
#include "weft/autograd.h"
#include "weft/eval.h"
#include "weft/nn/module.h"

namespace weft::nn::init {

static DType parameter_dtype() {
  return DTypeScope::active().value_or(float32);
}

Fans fans(const Shape &shape, Location location) {
  if (shape.size() < 2)
    fail_at(location, ErrorKind::kShape,
            "init: fan-in and fan-out need a shape of at least 2 dimensions, it is " +
                to_string(shape));
  double field = 1;
  for (size_t i = 2; i < shape.size(); ++i)
    field *= static_cast<double>(shape[i]);
  return {static_cast<double>(shape[1]) * field, static_cast<double>(shape[0]) * field};
}

Tensor constant(const Shape &shape, double value, std::optional<DType> dtype, Location location) {
  return start_constant(shape, value, dtype.value_or(parameter_dtype()), location);
}

Tensor uniform(const Shape &shape, double bound, Location location) {
  return uniform(shape, -bound, bound, location);
}

Tensor normal(const Shape &shape, double mean, double deviation, Location location) {
  return start_normal(shape, mean, deviation, parameter_dtype(), default_generator(), location);
}

Tensor uniform(const Shape &shape, double low, double high, Location location) {
  return start_uniform(shape, low, high, parameter_dtype(), default_generator(), location);
}

// The inverse of the standard normal's distribution function, for p in (0, 1): by Newton's method
// on erfc, which keeps its digits in the tails, from the logistic approximation.
static double normal_quantile(double p) {
  if (p > 0.5)
    return -normal_quantile(1 - p);
  double x = std::log(p / (1 - p)) / 1.702;
  for (int i = 0; i < 60; ++i) {
    double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
    double error = 0.5 * std::erfc(-x / std::numbers::sqrt2) - p;
    // Far out the tangent overshoots: steps of at most 1.
    double step = std::clamp(error / std::max(density, 1e-300), -1.0, 1.0);
    x -= step;
    if (std::abs(step) < 1e-14 * (1 + std::abs(x)))
      break;
  }
  return x;
}

Tensor truncated_normal(const Shape &shape, double mean, double deviation, double low, double high,
                        Location location) {
  location = CallerScope::resolve(location);
  if (!(deviation > 0) || !(low < high))
    throw Error(ErrorKind::kValue,
                "truncated_normal: the deviation must be positive and low below high", location);
  auto share = [&](double x) {
    return 0.5 * std::erfc(-(x - mean) / (deviation * std::numbers::sqrt2));
  };
  double from = share(low), to = share(high);
  if (!(from < to))
    throw Error(ErrorKind::kValue,
                "truncated_normal: [low, high] is too far from the mean to hold any sample",
                location);
  // On the host: parameters are computed when they are made anyway.
  std::vector<double> samples = weft::uniform(shape, 0, 1, float64, default_generator(), location)
                                    .to_vector<double>(location);
  std::vector<float> values;
  for (double u : samples) {
    double p = std::clamp(from + (to - from) * u, 1e-300, 1 - 0x1p-53);
    values.push_back(
        static_cast<float>(std::clamp(mean + deviation * normal_quantile(p), low, high)));
  }
  return Tensor::from(values, shape, location).to(parameter_dtype());
}

Tensor xavier_uniform(const Shape &shape, double gain, Location location) {
  Fans f = fans(shape, location);
  return uniform(shape, gain * std::sqrt(6.0 / (f.in + f.out)), location);
}

Tensor xavier_normal(const Shape &shape, double gain, Location location) {
  Fans f = fans(shape, location);
  return normal(shape, 0, gain * std::sqrt(2.0 / (f.in + f.out)), location);
}

static double kaiming_variance(const Shape &shape, double slope, Fan fan, Location location) {
  Fans f = fans(shape, location);
  return 2.0 / ((1 + slope * slope) * (fan == Fan::kIn ? f.in : f.out));
}

Tensor kaiming_uniform(const Shape &shape, double slope, Location location) {
  return kaiming_uniform(shape, slope, Fan::kIn, location);
}

Tensor kaiming_normal(const Shape &shape, double slope, Location location) {
  return kaiming_normal(shape, slope, Fan::kIn, location);
}

Tensor kaiming_uniform(const Shape &shape, double slope, Fan fan, Location location) {
  return uniform(shape, std::sqrt(3 * kaiming_variance(shape, slope, fan, location)), location);
}

Tensor kaiming_normal(const Shape &shape, double slope, Fan fan, Location location) {
  return normal(shape, 0, std::sqrt(kaiming_variance(shape, slope, fan, location)), location);
}

Tensor orthogonal(const Shape &shape, double gain, Location location) {
  location = CallerScope::resolve(location);
  if (shape.size() < 2)
    throw Error(ErrorKind::kShape,
                "orthogonal: the shape must have at least 2 dimensions, it is " + to_string(shape),
                location);
  int64_t rows = shape[0], columns = 1;
  for (size_t i = 1; i < shape.size(); ++i)
    columns *= shape[i];
  // Vectors of the longer side's length, made orthonormal one by one (Gram and Schmidt, twice,
  // which is enough: Giraud et al. 2005). What a normal sample is orthogonalised to has no
  // preferred direction.
  bool wide = rows < columns;
  int64_t count = wide ? rows : columns, length = wide ? columns : rows;
  std::vector<double> vectors =
      weft::normal({count, length}, 0, 1, float64, default_generator(), location)
          .to_vector<double>(location);
  for (int64_t i = 0; i < count; ++i) {
    double *v = vectors.data() + i * length;
    auto dot = [&](const double *u) {
      return std::inner_product(v, v + length, u, 0.0);
    };
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t j = 0; j < i; ++j) {
        const double *u = vectors.data() + j * length;
        double along = dot(u);
        for (int64_t k = 0; k < length; ++k)
          v[k] -= along * u[k];
      }
    double norm = std::sqrt(dot(v));
    for (int64_t k = 0; k < length; ++k)
      v[k] *= 1 / norm;
  }
  std::vector<float> values(rows * columns);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      values[r * columns + c] =
          static_cast<float>(gain * (wide ? vectors[r * length + c] : vectors[c * length + r]));
  return Tensor::from(values, shape, location).to(parameter_dtype());
}

namespace {

// The tensor with the samples of make(shape, dtype) in it, computed now, as a new parameter's are.
template <typename Make>
Tensor filled(const char *name, Tensor tensor, Location location, Make make) {
  recorder::Session session(name, location);
  recorder::BesideTensor beside(tensor);
  NoGrad no_grad;
  tensor.copy_(make(tensor.shape(), tensor.dtype()));
  submit({tensor}, location);
  return tensor;
}

} // namespace

Tensor uniform_(Tensor tensor, double low, double high, Location location) {
  return filled("uniform_", std::move(tensor), location, [&](const Shape &shape, DType dtype) {
    return start_uniform(shape, low, high, dtype, default_generator(), location);
  });
}

Tensor normal_(Tensor tensor, double mean, double deviation, Location location) {
  return filled("normal_", std::move(tensor), location, [&](const Shape &shape, DType dtype) {
    return start_normal(shape, mean, deviation, dtype, default_generator(), location);
  });
}

Tensor constant_(Tensor tensor, double value, Location location) {
  return filled("constant_", std::move(tensor), location, [&](const Shape &shape, DType dtype) {
    return start_constant(shape, value, dtype, location);
  });
}

Tensor zeros_(Tensor tensor, Location location) {
  return filled("zeros_", std::move(tensor), location, [&](const Shape &shape, DType dtype) {
    return start_constant(shape, 0, dtype, location);
  });
}

Tensor ones_(Tensor tensor, Location location) {
  return filled("ones_", std::move(tensor), location, [&](const Shape &shape, DType dtype) {
    return start_constant(shape, 1, dtype, location);
  });
}

// What is drawn in a parameter's dtype is drawn in the tensor's.
template <typename Make>
static Tensor sampled(const char *name, Tensor tensor, Location location, Make make) {
  return filled(name, std::move(tensor), location, [&](const Shape &shape, DType dtype) {
    if (!is_floating(dtype))
      recorder::fail(ErrorKind::kDType,
                     std::string("samples are floating-point numbers, not ") + weft::name(dtype));
    DTypeScope scope(dtype, location);
    return make(shape);
  });
}

Tensor truncated_normal_(Tensor tensor, double mean, double deviation, double low, double high,
                         Location location) {
  return sampled("truncated_normal_", std::move(tensor), location, [&](const Shape &shape) {
    return truncated_normal(shape, mean, deviation, low, high, location);
  });
}

Tensor xavier_uniform_(Tensor tensor, double gain, Location location) {
  return sampled("xavier_uniform_", std::move(tensor), location,
                 [&](const Shape &shape) { return xavier_uniform(shape, gain, location); });
}

Tensor xavier_normal_(Tensor tensor, double gain, Location location) {
  return sampled("xavier_normal_", std::move(tensor), location,
                 [&](const Shape &shape) { return xavier_normal(shape, gain, location); });
}

Tensor kaiming_uniform_(Tensor tensor, double slope, Fan fan, Location location) {
  return sampled("kaiming_uniform_", std::move(tensor), location,
                 [&](const Shape &shape) { return kaiming_uniform(shape, slope, fan, location); });
}

Tensor kaiming_normal_(Tensor tensor, double slope, Fan fan, Location location) {
  return sampled("kaiming_normal_", std::move(tensor), location,
                 [&](const Shape &shape) { return kaiming_normal(shape, slope, fan, location); });
}

Tensor orthogonal_(Tensor tensor, double gain, Location location) {
  return sampled("orthogonal_", std::move(tensor), location,
                 [&](const Shape &shape) { return orthogonal(shape, gain, location); });
}

Tensor copy_of(const Tensor &source, Location location) {
  return recorder::copy_of(source, location);
}

void submit(std::vector<Tensor> tensors, Location location) {
  tensors.push_back(default_generator().state_storage());
  submit_init(tensors, location);
}

} // namespace weft::nn::init
