// Writes of few rows into a value that the program may overwrite.
#pragma once

#include <optional>

#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Block.h"
#include "mlir/IR/Builders.h"

namespace weft::compiler {

// The dim along which the op writes a few whole rows of a donatable argument of @main that nothing
// else reads or writes: such a write is better made an index_put. None for an argument that must
// keep what it held until a run's last check (weft.kept): an index_put is a check. varies: which
// starts are known at run time only; empty where none is.
std::optional<int64_t> rowsWrittenInPlace(ir::InsertSliceOp op, llvm::ArrayRef<bool> varies = {});

// The write as an index_put along that dim, before the op, which stays. start: that of the dim,
// int64 of shape [rows], where it is known at run time only.
mlir::Value putRows(mlir::OpBuilder &builder, ir::InsertSliceOp op, int64_t dim,
                    mlir::Value start = nullptr);

// Makes each of these an index_put: b[5] = x of a buffer b of 300,000 rows. A kernel with an
// insert_slice writes all of its result; that of an index_put, where its result lies in its base's
// memory, the rows alone. Linear in ops.
void writeInPlace(mlir::Block &block);

} // namespace weft::compiler
