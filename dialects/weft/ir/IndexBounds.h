// What ops ask of indices that come from data.
#pragma once

#include <optional>

#include "dialects/weft/ir/Weft.h"

namespace weft::ir {

// What a lowering asserts of indices from data: each lies in [lower, upper) or is `ignored`.
struct IndexBounds {
  mlir::Value indices;
  llvm::StringRef user; // what errors name, or their message (TensorOps.td)
  int64_t lower, upper;
  std::optional<int64_t> ignored;
};
// Nothing for an op that asserts nothing, or whose bounds are symbolic.
std::optional<IndexBounds> indexBounds(mlir::Operation *op);

} // namespace weft::ir
