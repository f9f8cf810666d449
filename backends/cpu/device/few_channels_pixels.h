// Convolutions of row-major images of few channels whose result has its channels last, such as the
// first ones of networks: a kernel of ours.
#pragma once

#include <memory>

#include "backends/cpu/device/onednn_convolution.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

// Whether the kernel computes the convolution: as ConvolutionProblem::row_major_image says,
// forward, float32, one group, few channels. The problem alone decides, so that a program that was
// compiled for it runs on any processor.
bool few_channels_pixels_computes(const ConvolutionProblem &problem);

// Of such a one. Operands as OnednnConvolution::run has them.
std::unique_ptr<runtime::LibraryCallState> few_channels_pixels(const ConvolutionProblem &problem,
                                                               int threads);

} // namespace weft::backends::cpu
