// Weight gradients of depthwise convolutions: a kernel of ours. oneDNN 2.6.3 has one for kernels of
// width 3 alone. Any other runs on its kernel for groups, each padded to a block of channels: 16
// times the work, and a gradient of 16 x 16 for each tap and channel (400 KB a channel for 5 x 5
// taps in 16 parts). Of row-major images, 7 x 7 taps of 384 channels of 4 x 14 x 14 pixels, that
// takes 6.6 ms on two threads of Zen 3, and the kernel of ours 0.7.
#pragma once

#include <memory>

#include "backends/cpu/device/onednn_convolution.h"
#include "runtime/executable/library_call.h"

namespace weft::backends::cpu {

// Operands as OnednnConvolution::run has them. Null for what it does not do, or the library as
// well: other convolutions, kernels of another width than 3, 5 and 7, row-major images of few
// channels or of very many pixels.
std::unique_ptr<runtime::LibraryCallState>
depthwise_weight_gradient(const ConvolutionProblem &problem, int threads);

} // namespace weft::backends::cpu
