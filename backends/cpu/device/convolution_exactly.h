// Convolutions by their definition, one pixel at a time: for weights that are not finite.
#pragma once

#include <cstdint>
#include <span>

#include "backends/cpu/device/convolution_problem.h"

namespace weft::backends::cpu {

// Of an image's result some rows of some channels.
struct ConvolutionPart {
  int64_t image;
  int64_t first_channel, channels;
  int64_t first_row, rows;
};

// Of a forward convolution of float32; operands as OnednnConvolution::run has them. Each element is
// one sum in the order of its taps. Padding is left out: a kernel adds products with zeros for it,
// which are NaN where a weight is not finite.
void convolve_exactly(const ConvolutionProblem &problem, std::span<void *const> operands,
                      const ConvolutionPart &part);

} // namespace weft::backends::cpu
