#include "weft/nn/linear.h"

#include <cmath>

#include "weft/nn/init.h"
#include "weft/ops.h"

namespace weft::nn {

namespace {

Shape checked_shape(int64_t in, int64_t out, Location location) {
  if (in < 1 || out < 1)
    fail_at(location, ErrorKind::kValue,
            "Linear: sizes must be at least 1, they are " + std::to_string(in) + " and " +
                std::to_string(out));
  return {out, in};
}

} // namespace

Linear::Linear(int64_t in, int64_t out, LinearOptions options, Location location)
    : Linear(init::kaiming_uniform(checked_shape(in, out, location), std::sqrt(5.0), location),
             options.bias ? init::uniform({out}, 1 / std::sqrt(static_cast<double>(in)), location)
                          : Tensor(),
             location) {}

Linear::Linear(Tensor w, Tensor b, Location location) {
  CallerScope scope(location);
  if (w.ndim() != 2 || (b.defined() && b.shape() != Shape{w.size(0)}))
    fail_at(location, ErrorKind::kShape,
            "Linear: the weight must be [out, in] and the bias [out], they are " +
                to_string(w.shape()) + (b.defined() ? " and " + to_string(b.shape()) : ""));
  if (b.defined())
    init::submit({w, b}); // one program for both
  weight = parameter("weight", std::move(w));
  if (b.defined())
    bias = parameter("bias", std::move(b));
}

Tensor Linear::operator()(const Tensor &x, Location location) const {
  ModuleCall scope(*this, location);
  return weft::linear(x, weight, bias);
}

} // namespace weft::nn
