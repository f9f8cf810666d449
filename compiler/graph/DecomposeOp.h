// One op, rewritten by the decomposition of its record.
#pragma once

#include "dialects/weft/ir/Weft.h"

namespace weft::compiler {

// Replaces the op by ops that stand where it stood. Fails with an error at the op where its
// decomposition does not give what is used.
llvm::LogicalResult decomposeOp(ir::WeftOp op);

} // namespace weft::compiler
