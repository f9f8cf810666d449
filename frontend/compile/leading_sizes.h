// Values in which a size that varies is that of the first dim.
//
// Kernels know the strides of the dims behind it, so that it must be the first of each value
// (compiler/codegen/Sizes.h). In what was recorded, static dims often lie in front of it for a
// while: the parts of one product, a stack of results, steps of a sequence. Ops on such a value
// become ops on the same elements with the dim that varies in front, the other dims in their order;
// what then only moves elements to and fro is gone. No number is computed in another order.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace weft::recorder {

// `ops` are @main's, in order. One that is replaced is its replacement in there, null where nothing
// replaces it. varying: ops whose attributes vary, which go by the dims that they have.
// Unimplemented where an op needs the dims as they are.
absl::Status bring_to_front(mlir::func::FuncOp main, std::vector<mlir::Operation *> &ops,
                            const llvm::DenseSet<mlir::Operation *> &varying);

} // namespace weft::recorder
