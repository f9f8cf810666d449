// Sizes of a convolution of few channels, whose result is computed some rows at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "backends/cpu/device/convolution_problem.h"

namespace weft::backends::cpu {

inline constexpr int64_t kFewChannels = 4; // of the image, at most

struct FewChannelsShape {
  // piece_products: of the rows that are computed together.
  FewChannelsShape(const ConvolutionProblem &p, int64_t piece_products)
      : channels(p.image[1]), height(p.image[2]), width(p.image[3]), results(p.result[1]),
        rows(p.result[2]), columns(p.result[3]), tap_rows(p.weight[2]), tap_columns(p.weight[3]),
        strides(p.strides), padding(p.padding), dilation(p.dilation), relu(p.relu),
        piece_rows(std::clamp<int64_t>(piece_products / (columns * results * taps()), 1, rows)) {}

  int64_t taps() const {
    return channels * tap_rows * tap_columns;
  }
  int64_t pieces() const {
    return (rows + piece_rows - 1) / piece_rows;
  }
  // Of the image, that a piece reads.
  int64_t copied_rows() const {
    return (piece_rows - 1) * strides[0] + (tap_rows - 1) * dilation[0] + 1;
  }

  int64_t channels, height, width; // of the image
  int64_t results, rows, columns;  // of the result
  int64_t tap_rows, tap_columns;
  std::array<int64_t, 2> strides, padding, dilation;
  Relu relu;
  int64_t piece_rows; // of the result, computed together
};

} // namespace weft::backends::cpu
