// One op, rewritten by the decomposition of its record.
#pragma once

#include "dialects/weft/ir/Weft.h"

namespace weft::compiler {

// On a composite that is not decomposed: the backend's code generator builds it whole.
inline constexpr llvm::StringLiteral kWholeAttr = "weft.whole";

// Replaces the op by ops that stand where it stood. Fails with an error at the op where its
// decomposition does not give what is used.
llvm::LogicalResult decomposeOp(ir::WeftOp op);

} // namespace weft::compiler
