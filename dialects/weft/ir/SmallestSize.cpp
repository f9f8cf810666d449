#include "dialects/weft/ir/SmallestSize.h"

#include "dialects/weft/ir/SizeNames.h"
#include "mlir/IR/BuiltinOps.h"

namespace weft::ir {

int64_t smallestSize(mlir::Operation *op, const Dim &dim) {
  if (dim.isStatic())
    return dim.size;
  auto module = op->getParentOfType<mlir::ModuleOp>();
  auto sizes =
      module ? module->getAttrOfType<mlir::DictionaryAttr>("weft.sizes") : mlir::DictionaryAttr();
  SizeProduct product = productOf(dim.symbol.getValue());
  int64_t value = product.coefficient;
  for (llvm::StringRef name : product.symbols) {
    auto range = sizes ? sizes.getAs<mlir::DenseI64ArrayAttr>(name) : mlir::DenseI64ArrayAttr();
    if (!range || range.size() != 2)
      return -1;
    value *= range[0];
  }
  return value;
}

} // namespace weft::ir
