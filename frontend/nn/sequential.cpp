#include "weft/nn/sequential.h"

namespace weft::nn {

void Sequential::append(AnyLayer layer, Location location) {
  if (const Module *module = layer.module(location))
    register_child(std::to_string(layers_.size()), *module, location, layer.type());
  layers_.push_back(std::move(layer));
}

Tensor Sequential::operator()(const Tensor &x, Location location) const {
  ModuleCall scope(*this, location);
  Tensor y = x;
  for (const AnyLayer &layer : layers_)
    y = layer(y, location);
  return y;
}

} // namespace weft::nn
