// Results, and operands of calls, that are one value everywhere.
#pragma once

#include "mlir/IR/Block.h"

namespace weft::compiler {

// Makes each splat weft.constant that @main returns, or that an op reads which is no kernel's (a
// library's call), of at least limits::kMinFilledBytes or of a size that varies, a weft.broadcast
// of its value: a kernel writes it, and neither the program nor a file that holds it has its bytes.
// Ops of kernels that read the constant keep it, since there it costs nothing. Linear in ops.
void fillConstants(mlir::Block &block);

} // namespace weft::compiler
