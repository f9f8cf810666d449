// Elementary functions without a math library: math ops on scalars and vectors of f32 and f64 become arith and explicit math.fma ops.
#pragma once

#include "mlir/IR/Operation.h"

namespace weft::compiler {

// Expands every math op below `root` that the table knows (exp log tanh erf erfc rsqrt powf sin cos); math.fma, sqrt, absf, floor and the like,
// which machines have, stay. Scalars and vectors get the same ops in the same order, so that a tail computes the same bits as a whole
// vector. Errors, in ULP of the type: exp, erf, tanh <= 2; log, rsqrt, sin, cos <= 1; erfc <= 3; pow <= 4 (FunctionsTest measures them).
// Nothing is flushed; NaN, infinities and signed zeros as in C. sin and cos are for |x| < 2^30.
void expandMath(mlir::Operation *root);

} // namespace weft::compiler
