// What oneDNN's convolutions claim.
#pragma once

#include <memory>

#include "compiler/claim/Provider.h"

namespace weft::backends::cpu {

// Claims f32 convolutions of some size and their gradients, with a bias over the channels. Makes
// calls of the entry that backends/cpu/device/convolution_entry.h describes. Refuses pooling, with
// the reason.
std::unique_ptr<compiler::Provider> makeConvolutionProvider(bool bf16);

} // namespace weft::backends::cpu
