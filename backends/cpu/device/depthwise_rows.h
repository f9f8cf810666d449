// Depthwise convolutions of row-major images: a kernel of ours. oneDNN 2.6.3 has none; it copies
// such images into blocks of channels and back, which takes 5 to 10 times as long as the
// convolution.
#pragma once

#include <memory>

#include "backends/cpu/device/onednn_convolution.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

// Whether the kernel computes the convolution, and faster than the library: forward, float32,
// row-major, one filter a channel, 3 or 5 taps in a row, strides of 1 or 2, no dilation, channels
// that fill no whole blocks, rows of 8 pixels or more. The problem alone decides, so that its bits
// stay.
bool depthwise_rows_computes(const ConvolutionProblem &problem);

// Of such a one. Operands as OnednnConvolution::run has them.
std::unique_ptr<runtime::LibraryCallState> depthwise_rows(const ConvolutionProblem &problem,
                                                          int threads);

} // namespace weft::backends::cpu
