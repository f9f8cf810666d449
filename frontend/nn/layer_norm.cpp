#include "weft/nn/layer_norm.h"

#include "weft/nn/init.h"
#include "weft/ops.h"

namespace weft::nn {

LayerNorm::LayerNorm(Shape shape, LayerNormOptions options, Location location)
    : shape_(std::move(shape)), eps_(options.eps) {
  CallerScope scope(location);
  if (shape_.empty())
    fail_at(location, ErrorKind::kShape, "LayerNorm: at least one dimension is normalized");
  if (!options.affine)
    return;
  weight = parameter("weight", init::constant(shape_, 1));
  bias = parameter("bias", init::constant(shape_, 0));
}

Tensor LayerNorm::operator()(const Tensor &x, Location location) const {
  ModuleCall scope(*this, location);
  return weft::layer_norm(x, shape_, weight, bias, eps_);
}

} // namespace weft::nn
