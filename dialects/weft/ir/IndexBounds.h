// What ops ask of indices that come from data.
#pragma once

#include <optional>

#include "dialects/weft/ir/Weft.h"

namespace weft::ir {

// Of an op that takes indices, unit: whoever made it knows that they are in range, so that it is no
// check.
inline constexpr llvm::StringLiteral kInRangeAttr = "weft.in_range";

// What a lowering asserts of indices from data: each lies in [lower, upper) or is `ignored`.
struct IndexBounds {
  mlir::Value indices;
  llvm::StringRef user; // what errors name, or their message (TensorOps.td)
  int64_t lower, upper;
  std::optional<int64_t> ignored;
};
// Nothing for an op that asserts nothing, whose bounds are symbolic, or that is marked as in range.
std::optional<IndexBounds> indexBounds(mlir::Operation *op);

} // namespace weft::ir
