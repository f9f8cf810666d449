#include "compiler/fusion/FillConstants.h"

#include "compiler/fusion/FusionDomain.h"
#include "compiler/fusion/FusionLimits.h"
#include "compiler/fusion/TensorBytes.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace weft::compiler {

using namespace mlir;

// What a kernel can write instead of the constant: a splat of many bytes. Null for others.
static SplatElementsAttr filled(ir::ConstantOp constant) {
  auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
  auto type = constant ? ir::typeOf(constant) : RankedTensorType();
  if (!splat || !type.hasStaticShape())
    return nullptr;
  // A constant has the largest of sizes that vary, and a copy of it would not fit others.
  bool isLarge = ir::hasNamedDims(type) || tensorBytes(type) >= limits::kMinFilledBytes;
  return isLarge ? splat : nullptr;
}

void fillConstants(Block &block) {
  DenseMap<Value, Value> values;
  SmallVector<ir::ConstantOp> left;
  for (Operation &op : block) {
    bool isTerminator = op.hasTrait<OpTrait::IsTerminator>();
    if (!isTerminator && FusionDomain::fusible(&op) == Refusal::None)
      continue;
    for (OpOperand &operand : op.getOpOperands()) {
      auto constant = operand.get().getDefiningOp<ir::ConstantOp>();
      SplatElementsAttr splat = filled(constant);
      if (!splat)
        continue;
      Value &value = values[constant.getResult()];
      if (!value) {
        OpBuilder builder(&op);
        auto scalar = RankedTensorType::get({}, splat.getElementType());
        auto one = ir::ConstantOp::create(builder, constant.getLoc(),
                                          cast<ElementsAttr>(splat.resizeSplat(scalar)));
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
