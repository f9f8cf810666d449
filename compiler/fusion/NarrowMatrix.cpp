#include "compiler/fusion/NarrowMatrix.h"

#include "compiler/fusion/FusionLimits.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/SmallestSize.h"

namespace weft::compiler {

using namespace mlir;

using ir::typeOf;

static int64_t bytesOf(Value value) {
  auto type = typeOf(value);
  return type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
}

// Ops that a read folds: one number everywhere, places, and conversions that kernels compute again
// wherever they are read.
static bool isFolded(Operation *op) {
  if (auto constant = dyn_cast<ir::ConstantOp>(op))
    return isa<SplatElementsAttr>(constant.getValue());
  if (isa<ir::ReshapeOp, ir::BroadcastOp>(op))
    return true;
  auto cast = dyn_cast<ir::CastOp>(op);
  return cast && typeOf(cast.getInput()).getElementTypeBitWidth() <
                     typeOf(cast.getResult()).getElementTypeBitWidth();
}

// Goes back from the side to what lies in memory, or is computed elsewhere.
static bool collect(Value side, NarrowMatrix &matrix) {
  int64_t elements = typeOf(side).getNumElements(), bytes = 0, largest = 0, count = 0;
  llvm::SmallSetVector<Value, 4> leaves;
  SmallVector<Value> pending = {side};
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    auto op = dyn_cast_or_null<ir::WeftOp>(value.getDefiningOp());
    // What has few elements is computed once, not for each of the matrix.
    bool isCheap = op && op.kind() == ir::Kind::Elementwise && op.cost() < limits::kExpensiveCost &&
                   value.hasOneUse() &&
                   typeOf(value).getNumElements() * limits::kSmallOperandPart > elements;
    if (!op || (!isCheap && !isFolded(op))) {
      if (leaves.insert(value)) {
        bytes += bytesOf(value);
        largest = std::max(largest, typeOf(value).getNumElements());
      }
      continue;
    }
    if (!matrix.insert(op))
      continue;
    if (!isa<ir::ConstantOp>(op) && ++count > limits::kMaxNarrowOps)
      return false;
    llvm::append_range(pending, op->getOperands());
  }
  return bytes * limits::kNarrowGain <= bytesOf(side) &&
         largest * limits::kSmallOperandPart > elements;
}

std::optional<NarrowMatrix> narrowMatrixOf(ir::MatmulOp op, bool smallest) {
  auto type = typeOf(op), side = typeOf(op.getRhs());
  ir::Dim rows = ir::dimsOf(type).end()[-2];
  int64_t count = smallest ? ir::smallestSize(op, rows) : rows.size;
  if (!type.getElementType().isF32() || type.getNumElements() == 0 || ir::hasNamedDims(side) ||
      (count < 0 ? rows.size : count) > limits::kNarrowRows)
    return std::nullopt;
  // Each matrix is read once.
  auto matrices = [](RankedTensorType of) {
    return ShapedType::getNumElements(of.getShape().drop_back(2));
  };
  NarrowMatrix matrix;
  if (matrices(side) != matrices(type) || !collect(op.getRhs(), matrix))
    return std::nullopt;
  return matrix;
}

} // namespace weft::compiler
