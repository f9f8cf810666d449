// Ops that are too wide for one kernel.
#pragma once

#include "mlir/IR/Block.h"

namespace weft::compiler {

// Cuts each weft.concat of more than limits::kMaxConcatInputs inputs into a tree of narrower ones.
// Linear in inputs.
void splitWideConcats(mlir::Block &block);

} // namespace weft::compiler
