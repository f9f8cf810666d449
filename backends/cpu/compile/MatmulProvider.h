// What oneDNN's matmul claims.
#pragma once

#include <memory>

#include "compiler/claim/Provider.h"

namespace weft::backends::cpu {

// Claims f32 matmuls of some size, with transposes of the operands and of the result (read and written through strides) and a bias over
// the last dim. Makes calls of the entry that backends/cpu/device/matmul_entry.h describes.
std::unique_ptr<compiler::Provider> makeMatmulProvider();

} // namespace weft::backends::cpu
