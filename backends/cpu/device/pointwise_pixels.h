// Convolutions of 1x1 taps of images with channels last: a kernel of ours.
#pragma once

#include <memory>

#include "backends/cpu/device/convolution_problem.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

// Whether the kernel computes the convolution, and faster than the library: forward, float32,
// channels last, 1x1 taps, strides of 1, no padding, one group, few weights, and channels of the
// result that do not fill the library's vectors. The problem and the processor decide, so that the
// bits stay.
bool pointwise_pixels_computes(const ConvolutionProblem &problem);

// Of such a one. Operands as OnednnConvolution::run has them; with packed_weight the second one is
// as pack() writes it.
std::unique_ptr<runtime::PackedCallState> pointwise_pixels(const ConvolutionProblem &problem,
                                                           int threads);

} // namespace weft::backends::cpu
