// Rules of ops from outside may throw. MLIR, and the threads that compile kernels, cannot let that
// pass.
#pragma once

#include "mlir/IR/Operation.h"
#include "runtime/core/thrown.h"

namespace weft::ir {

// What the rule of the op, its "statement" for instance, gives; failure, with an error at the op,
// where it throws.
template <typename Rule>
auto callRule(mlir::Operation *op, llvm::StringRef name, Rule rule) -> decltype(rule()) {
  try {
    return rule();
  } catch (...) {
    op->emitOpError("is at fault in its rule: its ") << name << " " << runtime::thrown_text();
    return mlir::failure();
  }
}

} // namespace weft::ir
