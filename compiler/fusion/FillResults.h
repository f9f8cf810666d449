// Results that are one value everywhere.
#pragma once

#include "mlir/IR/Block.h"

namespace weft::compiler {

// Makes each splat weft.constant that @main returns, of at least limits::kMinFilledBytes or of a
// size that varies, a weft.broadcast of its value: a kernel writes the result, and neither the
// program nor a file that holds it has its bytes. Ops that read the constant keep it, since in
// their kernels it costs nothing. Linear in results.
void fillResults(mlir::Block &block);

} // namespace weft::compiler
