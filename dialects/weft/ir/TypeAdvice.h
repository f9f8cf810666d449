// What to do about MLIR's own messages on types that do not fit, which a user who writes .mlir by
// hand meets first.
#pragma once

#include <string>

namespace mlir {
class Diagnostic;
class DialectRegistry;
class Type;
} // namespace mlir

namespace weft::ir {

// For an error that operands of a weft op differ in type: which op, and the ops that make them
// equal. Empty for any other diagnostic.
std::string typeAdvice(const mlir::Diagnostic &diagnostic);

// For a tensor whose elements are of none of Weft's dtypes: what they may be, "tensors have
// elements of f32, f64, ...". Empty for any other type.
std::string elementAdvice(mlir::Type type);

// For an error that an op is of a dialect that is not known: where its ops may come from. Empty for
// any other diagnostic.
std::string dialectAdvice(const mlir::Diagnostic &diagnostic);

// Contexts of this registry add advice of the two kinds as a note to such errors; for tools whose
// diagnostics MLIR prints.
void addTypeAdvice(mlir::DialectRegistry &registry);

} // namespace weft::ir
