#include "weft/nn/linear.h"

#include <cmath>

#include "weft/nn/init.h"
#include "weft/ops.h"

namespace weft::nn {

Linear::Linear(int64_t in, int64_t out, LinearOptions options, Location location) {
  CallerScope scope(location);
  if (in < 1 || out < 1)
    throw Error(ErrorKind::kValue, "Linear: sizes must be at least 1, they are " + std::to_string(in) + " and " + std::to_string(out),
                CallerScope::resolve(location));
  Tensor w = init::kaiming_uniform({out, in}, std::sqrt(5.0));
  if (!options.bias) {
    weight = parameter("weight", w);
    return;
  }
  Tensor b = init::uniform({out}, 1 / std::sqrt(static_cast<double>(in)));
  submit_init(std::vector<Tensor>{w, b}); // one program for both
  weight = parameter("weight", w);
  bias = parameter("bias", b);
}

Tensor Linear::operator()(const Tensor &x, Location location) const {
  CallerScope scope(location);
  return weft::linear(x, weight, bias);
}

} // namespace weft::nn
