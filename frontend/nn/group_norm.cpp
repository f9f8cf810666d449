#include "weft/nn/group_norm.h"

#include "weft/nn/init.h"

namespace weft::nn {

GroupNorm::GroupNorm(int64_t groups, int64_t channels, GroupNormOptions options, Location location)
    : groups_(groups), eps_(options.eps) {
  CallerScope scope(location);
  if (groups < 1 || channels < 1 || channels % groups)
    fail_at(location, ErrorKind::kValue,
            "GroupNorm: groups, " + std::to_string(groups) + ", must divide the " +
                std::to_string(channels) + " channels");
  if (!options.affine)
    return;
  weight = parameter("weight", init::constant({channels}, 1));
  bias = parameter("bias", init::constant({channels}, 0));
}

Tensor GroupNorm::operator()(const Tensor &x, Location location) const {
  ModuleCall scope(*this, location);
  return weft::group_norm(x, groups_, weight, bias, eps_);
}

InstanceNorm2d::InstanceNorm2d(int64_t channels, InstanceNormOptions options, Location location)
    : channels_(channels), eps_(options.eps) {
  CallerScope scope(location);
  if (channels < 1)
    fail_at(location, ErrorKind::kValue,
            "InstanceNorm2d: there must be at least 1 channel, there are " +
                std::to_string(channels));
  if (!options.affine)
    return;
  weight = parameter("weight", init::constant({channels}, 1));
  bias = parameter("bias", init::constant({channels}, 0));
}

Tensor InstanceNorm2d::operator()(const Tensor &x, Location location) const {
  ModuleCall scope(*this, location);
  if (x.ndim() != 4 || x.shape()[1] != channels_)
    fail_at(location, ErrorKind::kShape,
            "InstanceNorm2d: x has shape " + to_string(x.shape()) + "; it must be [batch, " +
                std::to_string(channels_) + ", height, width]");
  if (x.shape()[2] * x.shape()[3] == 1)
    fail_at(location, ErrorKind::kShape,
            "InstanceNorm2d: x has shape " + to_string(x.shape()) +
                ": it needs more than one element a channel, else all become 0");
  return weft::group_norm(x, channels_, weight, bias, eps_);
}

RMSNorm::RMSNorm(Shape shape, RMSNormOptions options, Location location)
    : shape_(std::move(shape)), eps_(options.eps) {
  CallerScope scope(location);
  if (shape_.empty())
    fail_at(location, ErrorKind::kShape, "RMSNorm: at least one dimension is normalized");
  if (options.affine)
    weight = parameter("weight", init::constant(shape_, 1));
}

Tensor RMSNorm::operator()(const Tensor &x, Location location) const {
  ModuleCall scope(*this, location);
  return weft::rms_norm(x, shape_, weight, eps_);
}

} // namespace weft::nn
