// Private to this folder: how a claim becomes a call.
#pragma once

#include "compiler/claim/Provider.h"

namespace weft::compiler {

// Replaces the claimed ops by a call of the entry that holds copies of them. The call stands where
// the last of them stood; the ops stay, dead where nobody else reads them.
void makeCall(llvm::StringRef entry, const Claim &claim);

// Whether an operand or a result of the op has a size that is known at run time only.
bool hasVaryingSizes(mlir::Operation *op);

} // namespace weft::compiler
