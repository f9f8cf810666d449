#include "compiler/layout/LayoutTable.h"

#include "dialects/weft/ir/Dims.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

namespace weft::compiler {

using namespace mlir;

DimOrder rowMajor(int64_t rank) {
  return llvm::to_vector<6>(llvm::seq<int64_t>(0, rank));
}

bool isRowMajor(ArrayRef<int64_t> order) {
  return order == ArrayRef<int64_t>(rowMajor(order.size()));
}

static bool isPermutation(ArrayRef<int64_t> order, int64_t rank) {
  DimOrder sorted(order);
  llvm::sort(sorted);
  return ArrayRef<int64_t>(sorted) == ArrayRef<int64_t>(rowMajor(rank));
}

llvm::FailureOr<LayoutTable> LayoutTable::of(func::FuncOp main) {
  LayoutTable table;
  for (auto [i, argument] : llvm::enumerate(main.getArguments())) {
    Attribute attribute = main.getArgAttr(i, kAttribute);
    if (!attribute)
      continue;
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    auto order = dyn_cast<DenseI64ArrayAttr>(attribute);
    if (!type || !order || !isPermutation(order, type.getRank()))
      return main.emitError() << "argument " << i << " has " << kAttribute << " = " << attribute
                              << ", which is no order of the dims of " << argument.getType();
    if (!isRowMajor(order))
      table.set(argument, DimOrder(order.asArrayRef()));
  }
  return table;
}

DimOrder LayoutTable::orderOf(Value value) const {
  auto found = orders_.find(value);
  if (found != orders_.end())
    return found->second;
  return rowMajor(ir::typeOf(value).getRank());
}

void LayoutTable::set(Value value, DimOrder order) {
  if (isRowMajor(order))
    orders_.erase(value);
  else
    orders_[value] = std::move(order);
}

} // namespace weft::compiler
