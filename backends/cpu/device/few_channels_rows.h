// Convolutions of row-major images of few channels, such as the first ones of networks: a kernel of
// ours.
#pragma once

#include <memory>

#include "backends/cpu/device/onednn_convolution.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

// Whether the kernel computes the convolution, and faster than the library: forward, float32,
// row-major, one group, few channels. The problem and the processor decide.
bool few_channels_rows_computes(const ConvolutionProblem &problem);

// Of such a one. Operands as OnednnConvolution::run has them.
std::unique_ptr<runtime::LibraryCallState> few_channels_rows(const ConvolutionProblem &problem,
                                                             int threads);

} // namespace weft::backends::cpu
