// What the lowerings to linalg share: parallel generics with given maps.
#pragma once

#include "dialects/weft/ir/Weft.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/AffineMap.h"

namespace weft::ir {

using ScalarBody =
    llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location, mlir::ValueRange)>;

// A linalg.generic over the elements of a tensor of `type`, each of which `body` computes from the
// elements of `inputs` that `maps` (loop position -> input position) name; no maps means the same
// position.
mlir::Value parallelGeneric(mlir::OpBuilder &b, mlir::Location loc, mlir::RankedTensorType type,
                            mlir::ValueRange inputs, llvm::ArrayRef<mlir::AffineMap> maps,
                            ScalarBody body);

// A linalg.generic over the dims of operand 0, in whichever order the op's statement names them,
// which folds the reduced ones with `body(element values..., accumulator)`, from `identity`. Null,
// with an error at the op, where it has no statement, or one that leaves its tensors, and where the
// body gives another type than the accumulator's. Partial results are folded by the same body, as
// elements: it is f(x, accumulator) with f associative and commutative. x * x + accumulator is no
// such f, and gives wrong values; the squares are an op before the reduction, in the decomposition.
mlir::Value reductionGeneric(mlir::OpBuilder &b, mlir::Operation *op, mlir::ValueRange inputs,
                             mlir::TypedAttr identity, ScalarBody body);

// A linalg.generic that reads the one operand where the op's statement says, whose dims are the
// result's. An error at the op where that is not so, or leaves the operand.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
lowerMovement(mlir::OpBuilder &b, mlir::Operation *op, mlir::ValueRange operands);

// The index in [0, size) that `index` means (negative ones count from the end), as a value of index
// type; asserts that it is in range.
mlir::Value checkedIndex(mlir::OpBuilder &b, mlir::Location loc, mlir::Value index, int64_t size);

} // namespace weft::ir
