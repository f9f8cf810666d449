#include "weft/nn/pooling.h"

namespace weft::nn {

Upsample::Upsample(Pair scale, ResizeOptions options, Location location)
    : scale_(scale), options_(options) {
  if (scale.height < 1 || scale.width < 1)
    fail_at(location, ErrorKind::kValue,
            "Upsample: the scale must be at least 1, it is " + std::to_string(scale.height) +
                " x " + std::to_string(scale.width));
}

Tensor Upsample::operator()(const Tensor &x, Location location) const {
  ModuleCall scope(*this, location);
  if (x.ndim() != 4)
    fail_at(location, ErrorKind::kShape,
            "Upsample: x has shape " + to_string(x.shape()) +
                "; it must be [batch, channels, height, width]");
  return weft::resize(x, {x.shape()[2] * scale_.height, x.shape()[3] * scale_.width}, options_);
}

} // namespace weft::nn
