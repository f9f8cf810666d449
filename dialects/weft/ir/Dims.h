// Sizes of tensor dimensions as the shape rules see them: a number, or a named symbol (equal names
// are equal sizes).
#pragma once

#include <optional>
#include <string>

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

namespace weft::ir {

// One dimension: a static size, or ShapedType::kDynamic with the symbol's name.
struct Dim {
  int64_t size = 0;
  mlir::StringAttr symbol;

  Dim(int64_t size) : size(size) {}
  Dim(mlir::StringAttr symbol) : size(mlir::ShapedType::kDynamic), symbol(symbol) {}
  bool isStatic() const {
    return !symbol;
  }
  bool isOne() const {
    return isStatic() && size == 1;
  }
  bool operator==(const Dim &other) const = default;
};
using Dims = llvm::SmallVector<Dim, 4>;

// Whether each dynamic dim of a tensor type has a name (static types always do).
bool dimsAreNamed(mlir::Type type);
// The dims of a type whose dims are named.
Dims dimsOf(mlir::RankedTensorType type);

// Of a value that is a tensor.
inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return typeOf(value).getShape();
}
inline Dims dimsOf(mlir::Value value) {
  return dimsOf(typeOf(value));
}
mlir::RankedTensorType tensorOf(llvm::ArrayRef<Dim> dims, mlir::Type element);

// numpy's broadcasting of two shapes, aligned at the end; nothing where they do not fit.
std::optional<Dims> broadcastDims(llvm::ArrayRef<Dim> a, llvm::ArrayRef<Dim> b);
// Whether `from` broadcasts to exactly `to`.
bool broadcastsTo(llvm::ArrayRef<Dim> from, llvm::ArrayRef<Dim> to);
// Whether both have the same number of elements, for every value of the symbols. Nothing where only
// their values tell.
bool sameNumberOfElements(llvm::ArrayRef<Dim> a, llvm::ArrayRef<Dim> b);

// A type as users know it: "float32[2, 3]", "int64[n, 3]".
std::string spell(mlir::Type type);
std::string spell(llvm::ArrayRef<Dim> dims);

} // namespace weft::ir
