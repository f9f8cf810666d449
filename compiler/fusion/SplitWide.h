// Ops that are too wide for one kernel.
#pragma once

#include "mlir/IR/Block.h"

namespace weft::compiler {

// Cuts each weft.concat of more than limits::kMaxConcatInputs inputs into a tree of narrower ones. Linear in inputs; returns how many were
// cut.
int64_t splitWideConcats(mlir::Block &block);

} // namespace weft::compiler
