// Winograd's transforms for the weight's gradient of 3x3 convolutions (winograd_tiles.h), images
// with channels last.
//
// With the matrices A, B and G of the convolution, a tile of m x m elements of the result's
// gradient, y, and the (m + 2)^2 pixels that it was computed from, d, give G' [(A y A') * (B' d B)]
// G: what the convolution does to a weight, transposed. The sum over all tiles goes through the
// transform back, so that it is done once: the products are (m + 2)^2 products of matrices whose
// sums run over the tiles.
#pragma once

#include <cstdint>

#include "backends/cpu/device/winograd_tiles.h"

namespace weft::backends::cpu {

struct WinogradGradientTransforms {
  // Tiles [first, last) of the result's gradient, as rows [0, last - first) of (m + 2)^2 matrices
  // of `filters` columns, `matrix` elements from one to the next.
  void (*gradient)(const WinogradShape &shape, const float *gradient, int64_t first, int64_t last,
                   float *to, int64_t matrix);
  // Filters [first, last) of the weight's gradient, [filters, channels, 3, 3], from (m + 2)^2
  // matrices [filters, channels]. True iff all elements are finite.
  bool (*weight)(const WinogradShape &shape, const float *from, int64_t matrix, int64_t first,
                 int64_t last, float *weight);
};

// m is 2 or 4.
const WinogradGradientTransforms &winograd_gradient_transforms(int64_t m);

} // namespace weft::backends::cpu
