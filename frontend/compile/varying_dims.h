// Where in a value the sizes that vary stand.
#pragma once

#include "dialects/weft/ir/SizeNames.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace weft::recorder {

// Of dims: which dim stands at each place.
using Order = llvm::SmallVector<int64_t>;

inline mlir::RankedTensorType type_of(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}
inline ir::Dims dims_of(mlir::Value value) {
  return ir::dimsOf(type_of(value));
}

// Which dim has a size that varies; -1: none, -2: several.
inline int64_t place_of(llvm::ArrayRef<ir::Dim> dims) {
  int64_t place = -1;
  for (auto [i, dim] : llvm::enumerate(dims))
    if (!dim.isStatic())
      place = place == -1 ? static_cast<int64_t>(i) : -2;
  return place;
}

// Dims of size 1 in front of it change no stride.
inline bool stands_first(llvm::ArrayRef<ir::Dim> dims) {
  int64_t place = place_of(dims);
  return place == -1 ||
         (place >= 0 && llvm::all_of(dims.take_front(place),
                                     [](const ir::Dim &dim) { return dim.isOne(); }));
}
inline bool stands_first(mlir::Value value) {
  return stands_first(dims_of(value));
}

} // namespace weft::recorder
