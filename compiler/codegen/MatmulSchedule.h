// The schedules of products of matrices.
#pragma once

#include <optional>

#include "compiler/codegen/Schedule.h"

namespace weft::compiler {

// vectorBytes: of the machine's widest vectors. Which elements are computed together depends on it,
// their bits do not.
mlir::LogicalResult scheduleMatmul(KernelBuilder &kernel, ir::MatmulOp op, int64_t vectorBytes);
// Of few rows or columns (MatmulFewRows.cpp). Nothing for a product of another form.
std::optional<mlir::LogicalResult> scheduleFewRows(KernelBuilder &kernel, ir::MatmulOp op,
                                                   int64_t vectorBytes);

} // namespace weft::compiler
