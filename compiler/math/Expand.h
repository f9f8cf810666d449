// Elementary functions without a math library: math ops on scalars and vectors of f32 and f64
// become arith and explicit math.fma ops.
#pragma once

#include "mlir/IR/Operation.h"

namespace weft::compiler {

// Expands every math op below `root` that the table knows (exp exp2 expm1 log log1p tanh erf erfc rsqrt
// powf sin cos), arith.remf (C's fmod, exact) and ipowi (wraps; exponents are not negative).
// math.fma, sqrt, absf, floor and the like, which machines have, stay. Scalars and vectors get the
// same ops in the same order, so that a tail computes the same bits as a whole vector. Errors, in
// ULP of the type: exp, exp2, expm1, erf, tanh <= 2; log, log1p, rsqrt, sin, cos <= 1; erfc <= 3; pow <=
// 4 (FunctionsTest measures them). Nothing is flushed; NaN, infinities and signed zeros as in C.
// Arguments of sin and cos may be of any size: beyond 2^30 a branch, taken if one lane needs it,
// reduces them by as many digits of 2 / pi as it takes. fmod loops while a lane has quotient left.
//
// Two marks on ops (dialects/weft/ir/Attributes.h) give it more to go by: for weft.nonpositive the
// same bits come cheaper; weft.gelu, in f32, is a function of its own, within 4 ULP.
void expandMath(mlir::Operation *root);

// Whether expandMath expands the op, which then costs a dozen instructions or more.
bool isExpanded(mlir::Operation *op);

// The type of a scalar or of a vector, with another element type.
mlir::Type withElement(mlir::Type type, mlir::Type element);

} // namespace weft::compiler
