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

bool isRandomState(mlir::Type type) {
  auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
  return tensor && tensor.getElementType().isInteger(64) &&
         tensor.getShape() == llvm::ArrayRef<int64_t>{2};
}

mlir::Type withElementType(mlir::Type type, mlir::Type element) {
  return mlir::cast<mlir::RankedTensorType>(type).clone(element);
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

mlir::Operation *WeftDialect::materializeConstant(mlir::OpBuilder &builder, mlir::Attribute value,
                                                  mlir::Type type, mlir::Location loc) {
  if (auto elements = mlir::dyn_cast<mlir::ElementsAttr>(value))
    if (elements.getType() == type)
      return ConstantOp::create(builder, loc, elements);
  return nullptr;
}

} // namespace weft::ir
