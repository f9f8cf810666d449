// Which composites kernels of ours compute whole, instead of what they decompose to.
#pragma once

#include "compiler/claim/Provider.h"

namespace weft::backends::cpu {

compiler::KernelAnswer kernelFor(mlir::Operation *op);

} // namespace weft::backends::cpu
