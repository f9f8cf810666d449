// What cuDNN's convolutions claim.
#pragma once

#include <memory>

#include "compiler/claim/Provider.h"

namespace weft::backends::cuda {

// Claims convolutions and their gradients, in float32, and with the conversions around them in
// bfloat16 and float16. Makes calls of the entry that backends/cuda/device/cudnn_convolution.h
// describes. There is no least size: what a convolution becomes without it is several kernels.
std::unique_ptr<compiler::Provider> makeConvolutionProvider();

} // namespace weft::backends::cuda
