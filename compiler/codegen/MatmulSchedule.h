// The schedule of products of matrices (MatmulSchedule.cpp).
#pragma once

#include "compiler/codegen/Schedule.h"

namespace weft::compiler {

// vectorBytes: of the machine's widest vectors. Which elements are computed together depends on it,
// their bits do not.
mlir::LogicalResult scheduleMatmul(KernelBuilder &kernel, ir::MatmulOp op, int64_t vectorBytes);

} // namespace weft::compiler
