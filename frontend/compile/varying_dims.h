// Where in a value the sizes that vary stand.
#pragma once

#include "dialects/weft/ir/LongDims.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace weft::recorder {

using ir::dimsOf;
using ir::typeOf;

// Of dims: which dim stands at each place.
using Order = llvm::SmallVector<int64_t>;

// The value's type with other dims.
inline mlir::RankedTensorType type_with(mlir::Value value, llvm::ArrayRef<ir::Dim> dims) {
  return ir::tensorOf(dims, typeOf(value).getElementType());
}

// Which dim has a size that varies; -1: none, -2: several.
inline int64_t place_of(llvm::ArrayRef<ir::Dim> dims) {
  int64_t place = -1;
  for (auto [i, dim] : llvm::enumerate(dims))
    if (!dim.isStatic())
      place = place == -1 ? static_cast<int64_t>(i) : -2;
  return place;
}

inline bool lies_behind(mlir::Value value) {
  return ir::variesBehind(dimsOf(value));
}

// Whether no dim of more than one element passes another one in this order.
inline bool moves_ones(llvm::ArrayRef<ir::Dim> dims, llvm::ArrayRef<int64_t> order) {
  Order long_ones;
  llvm::copy_if(order, std::back_inserter(long_ones),
                [&](int64_t dim) { return !dims[dim].isOne(); });
  return llvm::is_sorted(long_ones);
}

// The op on what `of` makes of each operand; null where that is null.
template <typename Of>
mlir::Operation *clone_on(mlir::OpBuilder &builder, mlir::Operation *op, const Of &of) {
  llvm::SmallVector<mlir::Value> operands;
  for (mlir::Value operand : op->getOperands()) {
    operands.push_back(of(operand));
    if (!operands.back())
      return nullptr;
  }
  mlir::Operation *made = builder.clone(*op);
  made->setOperands(operands);
  return made;
}

// Gives a slice or an insert_slice what `of` makes of the starts, the limits and the steps of `op`.
template <typename Of> void set_bounds(mlir::Operation *made, mlir::Operation *op, const Of &of) {
  for (llvm::StringRef name : {"starts", "limits", "steps"})
    if (auto bounds = op->getAttrOfType<mlir::DenseI64ArrayAttr>(name))
      made->setAttr(name, mlir::DenseI64ArrayAttr::get(op->getContext(), of(bounds.asArrayRef())));
}

} // namespace weft::recorder
