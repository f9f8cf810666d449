// A recorded slice as the program for many ints.
#pragma once

#include "absl/status/statusor.h"
#include "frontend/compile/generalize.h"
#include "mlir/IR/BuiltinOps.h"

namespace weft::recorder {

// Rewrites @main, whose ops are those that the positions number: each of the generalization's
// scalars becomes an argument, after the others, and ops whose attributes vary become ops that take
// it. Unimplemented, with the reason, where an op cannot. writes_rows: whether the backend's
// kernels write few rows alone (CompileOptions::writeRows).
absl::Status make_symbolic(mlir::ModuleOp module, const Generalization &general,
                           const std::vector<IntPosition> &positions, bool writes_rows);

} // namespace weft::recorder
