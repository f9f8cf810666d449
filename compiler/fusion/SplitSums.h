// Sums over a size that varies and over dims behind what is kept.
#pragma once

#include "mlir/IR/Block.h"

namespace weft::compiler {

// [s0, C, H, W] -> [C] becomes [s0, C, H, W] -> [s0, C] -> [C]: kernels for sizes that vary have
// them outermost, and what is kept would be. The runs that such a reduction folds one by one are
// the rows of the first one here, and the second one adds them up as it would, so that it is the
// same bit for bit.
void splitSumsOverSizes(mlir::Block &block);

} // namespace weft::compiler
