// Modules whose parameters nobody has asked for, as layers in a std::vector that the module around
// them did not register: they would be called, and never trained, in silence. Private to the
// library.
#pragma once

#include <string>
#include <vector>

#include "weft/nn/module.h"

namespace weft::nn {

struct Unlisted {
  NamedTensors parameters; // its own
  Location made;           // where the first of them was
};

// A module has one more parameter of its own, made here.
void note_parameter(const void *module, const std::string &name, const Tensor &parameter,
                    Location location);
// parameters(), named_parameters() or state() of it or of one above was called, or it is gone.
void note_listed(const void *module);
// An optimizer was given these.
void note_listed(const std::vector<Tensor> &parameters);
// Those that have a gradient, the oldest first; each is given once.
std::vector<Unlisted> take_unlisted_with_gradients();

} // namespace weft::nn
