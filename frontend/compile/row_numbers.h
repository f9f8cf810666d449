// Rows of [4, n, 64] as [n.4, 64] (joined_rows.h), by number: row r is place r % n of text r / n.
//
// What takes rows apart (the mean of a text, what all texts have at a place) chooses them by these
// numbers. They are computed from n, which the program takes as a scalar.
#pragma once

#include "dialects/weft/rules/Rules.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace weft::recorder {

// The program's argument that is this size; null where it takes none.
using SizeOf = llvm::function_ref<mlir::Value(llvm::StringRef symbol)>;
// How many elements these dims have together, an int64; null where a size is no argument.
ir::Val count_of(mlir::OpBuilder &builder, mlir::Location loc, llvm::ArrayRef<ir::Dim> dims,
                 SizeOf size_of);

// int64: the position along one of these dims.
ir::Val iota(mlir::OpBuilder &builder, mlir::Location loc, llvm::ArrayRef<ir::Dim> dims,
             int64_t along);
// Whether each place is one of the first `count` ones, and the one that it is, or the next of them.
struct PlacesInside {
  ir::Val is_inside, place;
};
PlacesInside inside_of(ir::Val place, ir::Val count);

// Those elements along the dim, or rows, that have these numbers, all of which are there.
ir::Val choose(mlir::Value from, ir::Val numbers, int64_t dim = 0);

class RowNumbers {
public:
  RowNumbers(mlir::OpBuilder &builder, mlir::Location loc, ir::Dim texts, ir::Dim places,
             SizeOf size_of);
  // Whether n is an argument: else there are no numbers.
  explicit operator bool() const {
    return static_cast<bool>(length_);
  }

  // int64 [n.4]: of each row.
  ir::Val texts();
  ir::Val places();
  // int64 [n, 4]: the rows of a place, one for each text. Where the number of texts varies there
  // are as many columns as there may be: those behind are the last text's. Null where that number
  // is no argument.
  ir::Val by_place();
  // int64 [count.4]: of each text the rows of `count` places from `first` on, `step` apart. Null
  // where `count` is a size that the program does not take.
  ir::Val part(int64_t first, int64_t step, ir::Dim count);
  // For each row whether it is one of `count` places from `first` on (bool [n.4]), and which row of
  // [count.4] it is there (int64 [n.4], of the others any). Null as above.
  PlacesInside inside(int64_t first, ir::Dim count);

private:
  mlir::OpBuilder &builder_;
  mlir::Location loc_;
  ir::Dim texts_, places_, rows_;
  SizeOf size_of_;
  ir::Val length_; // how many places there are
};

} // namespace weft::recorder
