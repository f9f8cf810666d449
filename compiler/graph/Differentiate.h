// Reverse-mode differentiation of functions, by the derivative rules of the op records.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace weft::compiler {

// Builds the derivative of `output` (weighted by `cotangent`, of its type) by each of `inputs`, at
// the builder's insertion point, which must stand behind all ops that `output` depends on, in the
// block of `output`. An input that `output` does not depend on gets zeros. Only ops of weft are
// differentiated; an op without a derivative on the way is an error at that op.
mlir::FailureOr<llvm::SmallVector<mlir::Value>> buildGradients(mlir::OpBuilder &builder,
                                                               mlir::Value output,
                                                               mlir::Value cotangent,
                                                               llvm::ArrayRef<mlir::Value> inputs);

struct DifferentiateOptions {
  // Which arguments to differentiate by; empty: all of a floating-point type.
  llvm::SmallVector<int64_t> arguments;
  // Which result to differentiate.
  int64_t result = 0;
};

// Makes, beside `function`, its derivative @<name>_grad: of the same arguments, it returns the
// function's results and then one gradient for each differentiated argument. Where the
// differentiated result has more than one element, its cotangent (of its type) is the last
// argument. Errors stand at the function, or at the op that has no derivative.
mlir::FailureOr<mlir::func::FuncOp> differentiate(mlir::func::FuncOp function,
                                                  const DifferentiateOptions &options);

} // namespace weft::compiler
