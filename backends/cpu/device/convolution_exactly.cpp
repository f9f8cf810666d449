#include "backends/cpu/device/convolution_exactly.h"

#include <cmath>

namespace weft::backends::cpu {

void convolve_exactly(const ConvolutionProblem &p, std::span<void *const> operands,
                      const ConvolutionPart &part) {
  const auto &[images, channels, height, width] = p.image;
  const auto &[results, of_group, tap_rows, tap_columns] = p.weight;
  bool is_last = p.channels_last && !p.row_major_image;
  int64_t rows = p.result[2], columns = p.result[3], taps = tap_rows * tap_columns;
  const float *image = static_cast<const float *>(operands[0]) +
                       part.image * channels * height * width,
              *weight = static_cast<const float *>(operands[1]),
              *bias = p.bias ? static_cast<const float *>(operands[2]) : nullptr;
  float *result = static_cast<float *>(operands.back()) + part.image * results * rows * columns;
  for (int64_t o = part.first_channel; o < part.first_channel + part.channels; ++o) {
    int64_t first = o / (results / p.groups) * of_group; // channel of the image
    for (int64_t y = part.first_row; y < part.first_row + part.rows; ++y)
      for (int64_t x = 0; x < columns; ++x) {
        float sum = bias ? bias[o] : 0;
        const float *factor = weight + o * of_group * taps;
        for (int64_t c = first; c < first + of_group; ++c)
          for (int64_t i = 0; i < tap_rows; ++i)
            for (int64_t j = 0; j < tap_columns; ++j, ++factor) {
              int64_t row = y * p.strides[0] + i * p.dilation[0] - p.padding[0],
                      column = x * p.strides[1] + j * p.dilation[1] - p.padding[1];
              if (row >= 0 && row < height && column >= 0 && column < width)
                sum = std::fma(image[is_last ? (row * width + column) * channels + c
                                             : (c * height + row) * width + column],
                               *factor, sum);
            }
        int64_t at =
            p.channels_last ? (y * columns + x) * results + o : (o * rows + y) * columns + x;
        result[at] = rectified(sum, p.relu);
      }
  }
}

} // namespace weft::backends::cpu
