// What cuBLASLt's matmul claims.
#pragma once

#include <memory>

#include "compiler/claim/Provider.h"

namespace weft::backends::cuda {

// Claims floating-point matmuls whose batch dims need no repetition, but for an rhs of rank 2. Makes
// calls of the entry that backends/cuda/device/cublaslt_matmul.h describes.
std::unique_ptr<compiler::Provider> makeMatmulProvider();

} // namespace weft::backends::cuda
