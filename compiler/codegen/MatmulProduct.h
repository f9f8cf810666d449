// What the schedules of products of matrices share (MatmulSchedule.h).
#pragma once

#include "compiler/codegen/Schedule.h"

namespace weft::compiler {

// The depth is cut into `count` parts, each but the last `depth` products long: a multiple of every
// vector. A part's sum is added up product by product; parts are added in order.
struct MatmulParts {
  int64_t count, depth;
};
MatmulParts matmulParts(int64_t k);

// A product [batches..., m, k] x [batches..., k, n], and the function that its kernel becomes.
class MatmulProduct {
protected:
  MatmulProduct(KernelBuilder &kernel, ir::MatmulOp op);

  // Where an element of a side lies, at `batch_`; a side may have fewer dims, or such of size 1.
  llvm::SmallVector<Index> positionIn(mlir::Value side, bool transposed, const Index &row,
                                      const Index &column);
  mlir::Value multiplyAdd(mlir::Value a, mlir::Value b, mlir::Value sum);

  KernelBuilder &kernel_;
  KernelFunction f_;
  mlir::linalg::GenericOp generic_;
  mlir::Value left_, right_;
  mlir::Type element_;
  llvm::SmallVector<int64_t> batches_, result_;
  int64_t batchCount_, m_, n_, k_;
  llvm::SmallVector<Index> batch_; // of the code being emitted
};

} // namespace weft::compiler
