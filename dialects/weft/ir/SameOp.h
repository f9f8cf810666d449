// Ops by what they compute, as keys of sets that merge equal ones.
#pragma once

#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/DenseMapInfo.h"

namespace weft::ir {

// By name, properties, operands and result types; not by locations.
struct SameOp : llvm::DenseMapInfo<mlir::Operation *> {
  static unsigned getHashValue(const mlir::Operation *op) {
    using Equivalence = mlir::OperationEquivalence;
    return Equivalence::computeHash(const_cast<mlir::Operation *>(op), Equivalence::directHashValue,
                                    Equivalence::ignoreHashValue, Equivalence::IgnoreLocations);
  }
  static bool isEqual(const mlir::Operation *a, const mlir::Operation *b) {
    if (a == b)
      return true;
    if (a == getEmptyKey() || a == getTombstoneKey() || b == getEmptyKey() ||
        b == getTombstoneKey())
      return false;
    return mlir::OperationEquivalence::isEquivalentTo(const_cast<mlir::Operation *>(a),
                                                      const_cast<mlir::Operation *>(b),
                                                      mlir::OperationEquivalence::IgnoreLocations);
  }
};

} // namespace weft::ir
