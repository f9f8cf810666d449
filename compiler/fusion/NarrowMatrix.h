// Products of few rows with a matrix that lies in memory in fewer bits than it is multiplied in: a
// weight in int8 or uint8, perhaps with a zero point and a scale of each column or group.
//
// Such a product takes as long as to read its matrix. A kernel of ours converts what it reads in
// registers; a library would have the matrix written as float32 first, in four times the bytes.
// Claims, work ahead of runs and fusion ask here, so that they agree.
#pragma once

#include <optional>

#include "dialects/weft/ir/Weft.h"
#include "llvm/ADT/SetVector.h"

namespace weft::compiler {

// What computes a product's right side from what lies in memory, constants included. None where it
// is no such product: it has at most kNarrowRows rows. Of a number of rows that varies it is the
// largest one, or the smallest.
using NarrowMatrix = llvm::SmallSetVector<mlir::Operation *, 8>;
std::optional<NarrowMatrix> narrowMatrixOf(ir::MatmulOp op, bool smallest = false);

} // namespace weft::compiler
