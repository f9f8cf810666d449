// Fusions that differ in where they read only, as the iterations of a loop over rows do.
#pragma once

#include <cstdint>

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace weft::compiler {

// Takes out of the fusions of `main` what equal ones may differ in, so that they are launches of
// one kernel:
//   the place of a part of an operand: the part becomes the operand, a slice of the operand's
//     elements in a row, which takes no time as it begins at a multiple of operandAlignment bytes;
//     of a fusion that gives nothing but parts nothing is left; many rows of one operand are one
//     part, from the first to the last;
//   the place in its stream from which random numbers are drawn: {0, offset}, which the fusion adds
//     to the state.
// Linear in ops.
void shareKernels(mlir::func::FuncOp main, int64_t operandAlignment);

} // namespace weft::compiler
