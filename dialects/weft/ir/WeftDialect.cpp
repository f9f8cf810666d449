#include "dialects/weft/ir/Bytecode.h"
#include "dialects/weft/ir/Custom.h"
#include "dialects/weft/ir/Extensions.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include "dialects/weft/ir/WeftDialect.cpp.inc"
#include "dialects/weft/ir/WeftEnums.cpp.inc"
#include "dialects/weft/ir/WeftInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/weft/ir/WeftAttributes.cpp.inc"

namespace weft::ir {

using namespace mlir;

bool isRandomState(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getElementType().isInteger(64) &&
         tensor.getShape() == ArrayRef<int64_t>{2};
}

Type withElementType(Type type, Type element) {
  return cast<RankedTensorType>(type).clone(element);
}

void WeftDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/weft/ir/WeftOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/weft/ir/CustomOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/weft/ir/WeftAttributes.cpp.inc"
      >();
  addInterface(bytecodeInterface(this));
  loadExtensions(*getContext());
}

Operation *WeftDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                            Location loc) {
  if (auto elements = dyn_cast<ElementsAttr>(value))
    if (elements.getType() == type)
      return ConstantOp::create(builder, loc, elements);
  return nullptr;
}

} // namespace weft::ir
