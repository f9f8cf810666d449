// Values in which sizes stand in front of one that varies, as rows.
//
// Kernels know the strides of the dims behind a size that varies, so that it must be the first of
// each value (compiler/codegen/Sizes.h). A batch of texts, [4, n, 64], is the program's argument or
// result, and lies as it does. Its elements are those of n.4 rows, [n.4, 64], in the same order: an
// op that takes each row by itself, or all of them, is the same op on these. No number is computed
// in another order, and the reshapes between are aliases.
//
// Attention's kernel is told how many rows a text has, and takes them apart. Other ops that do (a
// table of positions that is the same for all texts, the mean of each) choose rows by their numbers
// (row_numbers.h).
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "frontend/compile/row_numbers.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace weft::recorder {

// Whether the first value of @main that has such dims is an argument, or rows that were joined
// before. Other dims in front, of steps that were stacked or turned, can go behind
// (leading_sizes.h).
bool takes_joined_rows(mlir::func::FuncOp main);
// As bring_to_front (leading_sizes.h). size_of: the sizes that @main takes as scalars.
absl::Status join_rows(mlir::func::FuncOp main, std::vector<mlir::Operation *> &ops,
                       const llvm::DenseSet<mlir::Operation *> &varying, SizeOf size_of);

} // namespace weft::recorder
