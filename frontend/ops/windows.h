// What convolutions, pooling and patches ask of their windows. Private to the library.
#pragma once

#include <limits>
#include <string>

#include "frontend/recorder/record/recorder.h"
#include "weft/images.h"

namespace weft::recorder {

inline std::string show(Pair pair) {
  return "(" + std::to_string(pair.height) + ", " + std::to_string(pair.width) + ")";
}

// Positions are sums of products of two such numbers, far from 64 bits: the ops' own limit.
inline constexpr int64_t kLargestOfWindow = std::numeric_limits<int32_t>::max();

// Fails where the number, or one of the two, is below `least` or above that.
inline void want_of_window(const char *argument, int64_t number, int64_t least) {
  if (number < least || number > kLargestOfWindow)
    fail(ErrorKind::kValue, std::string(argument) + " is " + std::to_string(number) +
                                "; it must lie in [" + std::to_string(least) + ", " +
                                std::to_string(kLargestOfWindow) + "]");
}
inline void want_of_window(const char *argument, Pair pair, int64_t least) {
  if (pair.height == pair.width)
    return want_of_window(argument, pair.height, least);
  for (int64_t number : {pair.height, pair.width})
    if (number < least || number > kLargestOfWindow)
      fail(ErrorKind::kValue, std::string(argument) + " is " + show(pair) +
                                  "; both must lie in [" + std::to_string(least) + ", " +
                                  std::to_string(kLargestOfWindow) + "]");
}

// Fails where images, or signals, are of another kind of numbers.
inline void want_floating(const TypeInfo &x) {
  if (!is_floating(x.dtype))
    fail(ErrorKind::kDType, "x is " + describe(x) + "; it must be floating, convert with to()");
}

// The host makes tables of positions and of weights for pixels of another size: of 2 GiB at most,
// since what its memory does not hold is no error of Weft's.
inline void want_table(int64_t rows, int64_t columns, const Shape &x, const std::string &size) {
  if (rows > (int64_t{1} << 28) / columns)
    fail(ErrorKind::kValue, "x has shape " + to_string(x) + ", " + size + ": a table of " +
                                std::to_string(rows) + " by " + std::to_string(columns) +
                                " numbers has more than 2^28; choose a smaller size");
}

// The elements of each window of an adaptive pooling, of `size` elements.
inline void want_adaptive_table(int64_t windows, int64_t size, const Shape &x,
                                const std::string &text) {
  if (windows > 0) // of at most this many elements each
    want_table(windows, size / windows + 2, x, text);
}

// conv_transpose2d of images, or of signals as images of height 1; errors have the caller's shapes.
Tensor transposed_convolution(const Tensor &x, const Tensor &weight, const Tensor &bias,
                              const ConvTranspose2dOptions &options, const Shape &x_shape,
                              const Shape &weight_shape);

} // namespace weft::recorder
