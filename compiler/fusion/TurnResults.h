// What attention gives, written as a transpose behind it says.
#pragma once

#include "mlir/IR/Block.h"

namespace weft::compiler {

// Heads are rows of attention and columns of what reads it: [4, 8, n, 64] is read as
// [4, n, 8, 64]. The kernel writes a result in that order (AttentionTiles::outputsOf), and as it is
// where others than kernels of attention read it. The derivative's reads what lies in that order
// through the transpose back, which costs nothing there, so that the result is written once.
// Linear in the users of attention's results.
void turnResults(mlir::Block &block);

} // namespace weft::compiler
