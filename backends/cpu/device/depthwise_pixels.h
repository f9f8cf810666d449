// Depthwise convolutions of images with channels last: a kernel of ours.
#pragma once

#include <memory>

#include "backends/cpu/device/convolution_problem.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

// Whether the kernel computes the convolution, and faster than the library: forward, float32,
// channels last, 16 of them at least, a filter for each, 3, 5 or 7 taps in a row, more taps than
// padding, strides of 1 or 2, no dilation. The problem and the processor decide, so that the bits
// stay.
bool depthwise_pixels_computes(const ConvolutionProblem &problem);

// Of such a one. Operands as OnednnConvolution::run has them; with packed_weight the second one is
// as pack() writes it.
std::unique_ptr<runtime::PackedCallState> depthwise_pixels(const ConvolutionProblem &problem,
                                                           int threads);

} // namespace weft::backends::cpu
