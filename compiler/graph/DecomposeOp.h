// One op, rewritten by the decomposition of its record.
#pragma once

#include "dialects/weft/ir/Weft.h"

namespace weft::compiler {

// On a composite that is not decomposed: the backend's code generator builds it whole.
inline constexpr llvm::StringLiteral kWholeAttr = "weft.whole";

// On an op from outside that a decomposition made, an integer: how many led to it, each of what the
// one before it made.
inline constexpr llvm::StringLiteral kMadeByAttr = "weft.made_by";
// Beyond these the ops make one another without end. A rule that halves a size needs fewer: an
// int64 can be halved 63 times.
inline constexpr int64_t kMostDecompositionsInARow = 64;

// Replaces the op by ops that stand where it stood. Fails with an error at the op where its
// decomposition does not give what is used.
llvm::LogicalResult decomposeOp(ir::WeftOp op);

} // namespace weft::compiler
