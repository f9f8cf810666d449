#include "compiler/fusion/FillConstants.h"

#include "compiler/fusion/FusionDomain.h"
#include "compiler/fusion/FusionLimits.h"
#include "compiler/fusion/TensorBytes.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace weft::compiler {

// What a kernel can write instead of the constant: a splat of many bytes. Null for others.
static mlir::SplatElementsAttr filled(ir::ConstantOp constant) {
  auto splat = constant ? mlir::dyn_cast<mlir::SplatElementsAttr>(constant.getValue())
                        : mlir::SplatElementsAttr();
  auto type = constant ? mlir::cast<mlir::RankedTensorType>(constant.getType())
                       : mlir::RankedTensorType();
  if (!splat || !type.hasStaticShape())
    return nullptr;
  // A constant has the largest of sizes that vary, and a copy of it would not fit others.
  bool isLarge = ir::hasNamedDims(type) || tensorBytes(type) >= limits::kMinFilledBytes;
  return isLarge ? splat : nullptr;
}

void fillConstants(mlir::Block &block) {
  llvm::DenseMap<mlir::Value, mlir::Value> values;
  llvm::SmallVector<ir::ConstantOp> left;
  for (mlir::Operation &op : block) {
    bool isTerminator = op.hasTrait<mlir::OpTrait::IsTerminator>();
    if (!isTerminator && FusionDomain::fusible(&op) == Refusal::None)
      continue;
    for (mlir::OpOperand &operand : op.getOpOperands()) {
      auto constant = operand.get().getDefiningOp<ir::ConstantOp>();
      mlir::SplatElementsAttr splat = filled(constant);
      if (!splat)
        continue;
      mlir::Value &value = values[constant.getResult()];
      if (!value) {
        mlir::OpBuilder builder(&op);
        auto scalar = mlir::RankedTensorType::get({}, splat.getElementType());
        auto one = ir::ConstantOp::create(builder, constant.getLoc(),
                                          mlir::cast<mlir::ElementsAttr>(splat.resizeSplat(scalar)));
        value = ir::BroadcastOp::create(builder, constant.getLoc(), constant.getType(),
                                        one.getResult());
        left.push_back(constant);
      }
      operand.set(value);
    }
  }
  for (ir::ConstantOp constant : left)
    if (constant->use_empty())
      constant->erase();
}

} // namespace weft::compiler
