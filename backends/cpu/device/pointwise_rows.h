// Convolutions of 1x1 taps of row-major images: a kernel of ours. oneDNN 2.6.3 has none for them
// but a general matrix product, whose calls are slow where images are small.
#pragma once

#include <memory>

#include "backends/cpu/device/onednn_convolution.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

// Whether the kernel computes the convolution, and faster than the library: forward, float32,
// row-major, 1x1 taps, strides of 1, no padding, one group. The problem alone decides, so that its
// bits stay.
bool pointwise_rows_computes(const ConvolutionProblem &problem);

// Of such a one. Operands as OnednnConvolution::run has them.
std::unique_ptr<runtime::LibraryCallState> pointwise_rows(const ConvolutionProblem &problem,
                                                          int threads);

} // namespace weft::backends::cpu
