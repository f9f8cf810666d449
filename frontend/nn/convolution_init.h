// What the convolutions of signals and images have in common: checks of sizes, and initial values.
// Private to this folder.
#pragma once

#include <utility>

#include "weft/tensor.h"

namespace weft::nn {

// Throws Error when a size is below 1, or groups does not divide both channel counts.
void check_convolution(const char *module, int64_t in, int64_t out, const Shape &kernel,
                       int64_t groups, Location location);
// The weight and, unless it is left out, the bias [out], drawn by one program.
std::pair<Tensor, Tensor> draw_convolution(const Shape &shape, int64_t out, bool bias);

} // namespace weft::nn
