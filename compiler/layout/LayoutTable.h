// In which order the dims of each value of a slice lie in memory.
#pragma once

#include <optional>
#include <string>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace weft::compiler {

// Dims from the slowest to the fastest in memory: {0, 1, 2} is row-major, {0, 2, 1} has dim 1
// innermost. Without gaps. A blocked layout is a value of higher rank (C as C/b and b) in some such
// order.
using DimOrder = llvm::SmallVector<int64_t, 6>;

DimOrder rowMajor(int64_t rank);
bool isRowMajor(llvm::ArrayRef<int64_t> order);

class LayoutTable {
public:
  // The argument attribute that fixes the order of an argument or a result of @main: a
  // DenseI64ArrayAttr.
  static constexpr llvm::StringLiteral kAttribute = "weft.layout";

  // The orders that @main asks for; row-major elsewhere. On failure an error at the function names
  // the argument.
  static llvm::FailureOr<LayoutTable> of(mlir::func::FuncOp main);

  // Values without an entry are row-major.
  DimOrder orderOf(mlir::Value value) const;
  void set(mlir::Value value, DimOrder order);
  // Values with another order than row-major.
  size_t numOthers() const {
    return orders_.size();
  }

private:
  llvm::DenseMap<mlir::Value, DimOrder> orders_;
};

} // namespace weft::compiler
