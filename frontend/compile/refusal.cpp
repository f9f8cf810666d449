#include "frontend/compile/refusal.h"

#include "compiler/pipeline/Report.h"
#include "dialects/weft/ir/Attention.h"
#include "dialects/weft/ir/Weft.h"

namespace weft::recorder {

absl::Status cannot(mlir::Operation *op, std::string why) {
  if (std::string line = op ? compiler::locationText(op) : std::string(); !line.empty())
    why += " (" + line + ")";
  return absl::UnimplementedError(why);
}

absl::Status why_no_lengths(mlir::Operation *op) {
  if (!ir::isAttention(op) || !ir::variesInLength(op) || ir::whyNoLengths(op).empty())
    return absl::OkStatus();
  return cannot(op, name_of(op) + " " + ir::whyNoLengths(op).str());
}

absl::Status too_few_elements(mlir::Operation *slice) {
  return absl::OutOfRangeError(
      cannot(slice, "weft.slice takes elements that the smallest size of the range has not")
          .message());
}

std::string name_of(mlir::Operation *op) {
  std::string name = op->getName().getStringRef().str();
  auto is_flat = [](mlir::Type type) {
    auto tensor = mlir::cast<mlir::RankedTensorType>(type);
    return tensor.getRank() == 4 && tensor.getDimSize(2) == 1;
  };
  if (mlir::isa<ir::Conv2dOp, ir::Conv2dInputGradientOp, ir::Conv2dWeightGradientOp>(op) &&
      llvm::all_of(op->getOperandTypes(), is_flat))
    name += " (conv1d is one of height 1)";
  return name;
}

} // namespace weft::recorder
