// Kernels that are told lengths, so that what they read and write may have a dim of such a length
// anywhere (Sizes.h).
#pragma once

#include "compiler/codegen/Sizes.h"

namespace weft::compiler {

// Of a kernel of attention whose number of queries varies: it counts queries, of all matrices.
mlir::FailureOr<KernelSizes> attentionSizes(mlir::Operation *attention, mlir::Block &body);
// Of a static number of rows whose length varies, [4, n]: elementwise ops, and reductions of a row.
// It counts elements, of all rows.
mlir::FailureOr<KernelSizes> rowSizes(mlir::Block &body);

// Failure, with a sentence for explain: "weft.matmul sums over a size that varies (model.cpp:12)".
mlir::FailureOr<KernelSizes> refuseSizes(mlir::Operation *op, const llvm::Twine &why);

} // namespace weft::compiler
