#include "dialects/weft/ir/SmallestSize.h"

#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/SizeNames.h"
#include "mlir/IR/BuiltinOps.h"

namespace weft::ir {

using namespace mlir;

int64_t smallestSize(Operation *op, const Dim &dim) {
  if (dim.isStatic())
    return dim.size;
  auto module = op->getParentOfType<ModuleOp>();
  auto sizes = module ? module->getAttrOfType<DictionaryAttr>(kSizesAttr) : DictionaryAttr();
  SizeProduct product = productOf(dim.symbol.getValue());
  int64_t value = product.coefficient;
  for (StringRef name : product.symbols) {
    auto range = rangeOf(sizes ? sizes.get(name) : Attribute());
    if (!range)
      return -1;
    value *= range->first;
  }
  return value;
}

} // namespace weft::ir
