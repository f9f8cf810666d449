// Winograd's transforms for 3x3 convolutions of stride 1, images with channels last.
//
// A tile of m x m results needs (m + 2)^2 pixels of the image, d. With the weight of a pair of
// channels, g, the tile is A' [(G g G') * (B' d B)] A, where * multiplies element by element: (m +
// 2)^2 multiplications instead of 9 m^2, that is 2.25 times fewer for m = 2 and 4 times for m = 4.
// Over all channels and tiles the products are (m + 2)^2 products of matrices, one for each place
// in a transformed tile.
//
// Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015); m = 2 with
// the points 0, 1, -1.
#pragma once

#include <array>
#include <cstdint>

#include "backends/cpu/device/product_tiles.h"
#include "backends/cpu/device/relu.h"

namespace weft::backends::cpu {

// The convolution that is computed: of an image [images, height, width, channels] to a result
// [images, rows, columns, filters]. Of an input's gradient the "image" is the result's.
struct WinogradShape {
  int64_t images, channels, height, width, filters, rows, columns;
  std::array<int64_t, 2> padding; // rows above the image, columns before it
  // Of weight element (filter, channel, tap): elements from one to the next.
  int64_t filter_stride, channel_stride;
  bool flipped = false; // tap 8 - t instead of tap t
  bool panels = false;  // the weight's matrices are in panels (product_tiles.h)

  // Elements of a weight's matrix.
  int64_t matrix_elements() const {
    return panels ? TiledProduct{0, channels, filters, 0, 0}.packed_elements() : channels * filters;
  }
  int64_t tiles(int64_t m) const {
    return images * tile_rows(m) * tile_columns(m);
  }
  int64_t tile_rows(int64_t m) const {
    return (rows + m - 1) / m;
  }
  int64_t tile_columns(int64_t m) const {
    return (columns + m - 1) / m;
  }
};

// The instructions that oneDNN may use decide for these functions, too.
struct WinogradTransforms {
  // Tiles [first, last) of the image, as rows [0, last - first) of (m + 2)^2 matrices of `channels`
  // columns, `matrix` elements from one to the next.
  void (*image)(const WinogradShape &shape, const float *image, int64_t first, int64_t last,
                float *to, int64_t matrix);
  // Filters [first, last) of the weight: (m + 2)^2 matrices [channels, filters], or their panels,
  // and its taps, [9, channels, filters]. `first` is a multiple of a panel's columns.
  void (*weight)(const WinogradShape &shape, const float *weight, int64_t first, int64_t last,
                 float *matrices, float *taps);
  // Tiles [first, last) of the result from rows of (m + 2)^2 matrices of `filters` columns. bias:
  // one element a filter, or null. A tile that gets an infinity or a NaN is computed anew from the
  // image and the taps, so that it has these where a sum of products has them.
  void (*result)(const WinogradShape &shape, const float *from, int64_t matrix, int64_t first,
                 int64_t last, const float *bias, const Relu &relu, const float *image,
                 const float *taps, float *result);
};

// m is 2 or 4.
const WinogradTransforms &winograd_transforms(int64_t m);

} // namespace weft::backends::cpu
