// Which ops may end a run for the values that they read, beside those that look at indices
// (IndexBounds.h).
#pragma once

#include "mlir/IR/Operation.h"

namespace weft::ir {

// A kernel of a user's, a factorization that a matrix may not have, or a provider's call of one.
bool mayFail(mlir::Operation *op);

} // namespace weft::ir
