// Values of two sizes that vary, the second of which is their last dim's: attention's masks, with a
// row for each query and a column for each key, [4, 1, n, m].
//
// Such a value is wide rows, [n.4, 64]: those of all dims but the last, each with as many columns
// as there may be. So its rows have one length, and a kernel has one size. What stands in columns
// behind the m that there are is any number: attention's kernel, which is told m, reads none of it.
#pragma once

#include <functional>

#include "dialects/weft/ir/Weft.h"
#include "frontend/compile/row_numbers.h"
#include "llvm/ADT/DenseMap.h"

namespace weft::recorder {

class WideRows {
public:
  // The rows of a value that is not wide (joined_rows.h); null where it has none.
  using RowsOf = std::function<mlir::Value(mlir::Value)>;
  WideRows(mlir::OpBuilder &builder, SizeOf size_of, RowsOf rows_of)
      : builder_(builder), size_of_(size_of), rows_of_(std::move(rows_of)) {}

  // Whether several of these dims vary, the last one among them.
  static bool has_two_sizes(llvm::ArrayRef<ir::Dim> dims);
  bool contains(mlir::Value value) const {
    return values_.contains(value);
  }
  // Whether the op is one on wide rows: it takes some, or makes a value of two sizes of others.
  bool takes(mlir::Operation *op) const;
  // The op on wide rows; null where it is none.
  mlir::Operation *widen(mlir::Operation *op);
  // The value as wide rows, whose elements are chosen one by one where it has others; null where
  // they do not lie one after another.
  mlir::Value of(mlir::Value value);
  // The elements that there are, [n.m.4]; null where m is no argument.
  mlir::Value dense(mlir::Value value);
  // The wide rows with the dims of the value, but the last one, which has all columns.
  mlir::Value apart(mlir::Location loc, mlir::Value value);

private:
  // Its elements with these dims.
  mlir::Value reshaped(mlir::Location loc, mlir::Value value, llvm::ArrayRef<ir::Dim> dims);
  mlir::Value iota_of(ir::IotaOp op);
  mlir::Value spread(ir::BroadcastOp op);
  mlir::Value columns_of(ir::SliceOp op);
  // Which row of a value with the dims `from` is that of each row of one with the dims `to`; null
  // where no number says so.
  ir::Val numbers(mlir::Location loc, llvm::ArrayRef<ir::Dim> from, llvm::ArrayRef<ir::Dim> to);

  mlir::OpBuilder &builder_;
  SizeOf size_of_;
  RowsOf rows_of_;
  llvm::DenseMap<mlir::Value, mlir::Value> values_;
};

} // namespace weft::recorder
