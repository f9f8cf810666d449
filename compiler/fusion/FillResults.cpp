#include "compiler/fusion/FillResults.h"

#include "compiler/fusion/FusionLimits.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace weft::compiler {

void fillResults(mlir::Block &block) {
  mlir::Operation *end = block.getTerminator();
  mlir::OpBuilder builder(end);
  llvm::DenseMap<mlir::Value, mlir::Value> filled;
  for (mlir::OpOperand &result : end->getOpOperands()) {
    auto constant = result.get().getDefiningOp<ir::ConstantOp>();
    if (!constant)
      continue;
    auto splat = mlir::dyn_cast<mlir::SplatElementsAttr>(constant.getValue());
    auto type = mlir::cast<mlir::RankedTensorType>(constant.getType());
    if (!splat || !type.hasStaticShape())
      continue;
    // In floating point: a shape that no machine has memory for may have more bytes than an integer
    // holds. A constant has the largest of sizes that vary, and a copy of it would not fit others.
    if (!ir::hasNamedDims(type) &&
        double(type.getNumElements()) * ((type.getElementTypeBitWidth() + 7) / 8) <
            limits::kMinFilledBytes)
      continue;
    mlir::Value &value = filled[constant.getResult()];
    if (!value) {
      auto scalar = mlir::RankedTensorType::get({}, type.getElementType());
      auto one = ir::ConstantOp::create(builder, constant.getLoc(),
                                        mlir::cast<mlir::ElementsAttr>(splat.resizeSplat(scalar)));
      value = ir::BroadcastOp::create(builder, constant.getLoc(), type, one.getResult());
    }
    result.set(value);
    if (constant->use_empty())
      constant->erase();
  }
}

} // namespace weft::compiler
