// Modules for a range of sizes: weft.sizes names one size, with the smallest and the largest number
// that it stands for. Types have the largest (dialects/weft/ir/SizeNames.h).
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "dialects/weft/ir/Attributes.h"
#include "mlir/IR/BuiltinOps.h"

namespace weft::compiler {

using ir::kBeyondOneAttr;
using ir::kSizeAttr;
using ir::kSizesAttr;

struct SizeRange {
  std::string name;
  int64_t low = 0, high = 0; // both included
};

// Nothing where the module has no weft.sizes. InvalidArgument for more than one size, or a range
// that is none.
absl::StatusOr<std::optional<SizeRange>> sizeRange(mlir::ModuleOp module);

// Makes the module one for a part of its range: its types and constants have the largest size of
// the part. Where the part is one size, nothing in the module has a name any longer; where it is 1,
// nothing is summed over it that kBeyondOneAttr leaves out.
// InvalidArgument where the module does not verify at that size, with what the verifier says.
absl::Status narrow(mlir::ModuleOp module, int64_t low, int64_t high);

} // namespace weft::compiler
