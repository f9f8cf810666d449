// Sizes that vary within bounds: a dim that has both a number and a name.
//
// tensor<64x128xf32, #weft.dims<n, _>> has up to 64 rows; n says how many. Compilation works on the
// numbers, the largest sizes, and every rule that compares dims compares their names too, so that
// equal numbers alone join nothing. A name like "n.m.4" is a product.
#pragma once

#include <optional>
#include <utility>

#include "dialects/weft/ir/Dims.h"

namespace weft::ir {

// What the name of a symbol stands for: "n" is itself, "n.m.4" the product of n, m and 4.
struct SizeProduct {
  int64_t coefficient = 1;
  llvm::SmallVector<llvm::StringRef, 2> symbols; // sorted
};
SizeProduct productOf(llvm::StringRef name);
// A dim with that name, as large as `largest`, which is 2 or more: 0 and 1 mean no elements and
// broadcasting, and have no name.
Dim namedDim(mlir::StringAttr name, int64_t largest);
// One dim as large as all of these together: the one that they become when a reshape joins them.
Dim productDim(llvm::ArrayRef<Dim> dims);
// The ends of a range in weft.sizes, [2, 64] or array<i64: 2, 64>; nothing of what is none.
std::optional<std::pair<int64_t, int64_t>> rangeOf(mlir::Attribute range);
// Whether a dim of the tensor type has a name.
bool hasNamedDims(mlir::Type type);

} // namespace weft::ir
