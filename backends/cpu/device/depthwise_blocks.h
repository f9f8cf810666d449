// Depthwise convolutions of small row-major images: a kernel of ours, which turns some channels at
// a time.
#pragma once

#include <memory>

#include "backends/cpu/device/onednn_convolution.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

// Whether the kernel computes the convolution, and faster than the library: forward, float32, one
// channel a group. The problem and the processor decide.
bool depthwise_blocks_computes(const ConvolutionProblem &problem);

// Of such a one. Operands as OnednnConvolution::run has them.
std::unique_ptr<runtime::LibraryCallState> depthwise_blocks(const ConvolutionProblem &problem,
                                                            int threads);

} // namespace weft::backends::cpu
