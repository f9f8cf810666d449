// Rows of [4, n, 64] as [n.4, 64] (joined_rows.h), by number: row r is place r % n of text r / n.
//
// What takes rows apart (the mean of a text, what all texts have at a place) chooses them by these
// numbers. They are computed from n, which the program takes as a scalar.
#pragma once

#include <functional>

#include "dialects/weft/rules/Rules.h"

namespace weft::recorder {

class RowNumbers {
public:
  // The program's argument that is this size; null where it takes none.
  using SizeOf = std::function<mlir::Value(llvm::StringRef symbol)>;

  // texts: a static number.
  RowNumbers(mlir::OpBuilder &builder, mlir::Location loc, int64_t texts, ir::Dim places,
             const SizeOf &size_of);
  explicit operator bool() const {
    return static_cast<bool>(length_);
  }
  ir::Dim rows() const {
    return rows_;
  }

  // int64 [n.4]: of each row.
  mlir::Value texts();
  mlir::Value places();
  // int64 [n, 4]: the rows of a place, one for each text.
  mlir::Value by_place();
  // int64 [count.4]: of each text the rows of `count` places from `first` on, `step` apart. Null
  // where `count` is a size that the program does not take.
  mlir::Value part(int64_t first, int64_t step, ir::Dim count, const SizeOf &size_of);
  // For each row whether it is one of `count` places from `first` on (bool [n.4]), and which row of
  // [count.4] it is there (int64 [n.4], of the others any). Null as above.
  struct Inside {
    mlir::Value is_inside, row;
  };
  Inside inside(int64_t first, ir::Dim count, const SizeOf &size_of);

private:
  ir::Val number(int64_t value); // a scalar
  ir::Val count(ir::Dim dim, const SizeOf &size_of);
  ir::Val numbers(llvm::ArrayRef<ir::Dim> dims, int64_t along);
  ir::Val all(ir::Val scalar, llvm::ArrayRef<ir::Dim> dims);

  mlir::OpBuilder &builder_;
  mlir::Location loc_;
  int64_t texts_;
  ir::Dim places_, rows_;
  ir::Val length_; // how many places there are
};

} // namespace weft::recorder
