// Why a program cannot leave its sizes open: sentences for explain, which name the user's op and
// line.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "mlir/IR/Operation.h"

namespace weft::recorder {

// Unimplemented: why, and behind it the op's line. op: null for none.
absl::Status cannot(mlir::Operation *op, std::string why);
// Of attention over lengths that no kernel serves, why; OK for any other op.
absl::Status why_no_lengths(mlir::Operation *op);
// OutOfRange: programs for larger sizes may be one.
absl::Status too_few_elements(mlir::Operation *slice);
// "weft.conv2d"; where another function of the user's is computed by it, that one as well.
std::string name_of(mlir::Operation *op);

} // namespace weft::recorder
