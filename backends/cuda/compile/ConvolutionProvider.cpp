#include "backends/cuda/compile/ConvolutionProvider.h"

#include "backends/cuda/compile/Limits.h"
#include "compiler/claim/ClaimSteps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"

namespace weft::backends::cuda {

using namespace mlir;

namespace {

using compiler::Claim;
using compiler::ClaimAnswer;
using compiler::ClaimRefusal;
using compiler::NotMine;
using compiler::typeOf;

class ConvolutionProvider : public compiler::Provider {
public:
  StringRef name() const override {
    return "cudnn.convolution";
  }

  ClaimAnswer match(Operation *op, compiler::MathMode math) const override {
    if (auto conv = dyn_cast<ir::Conv2dOp>(op))
      return claimOf(conv, "forward", math);
    if (auto conv = dyn_cast<ir::Conv2dInputGradientOp>(op))
      return claimOf(conv, "input_gradient", math);
    if (auto conv = dyn_cast<ir::Conv2dWeightGradientOp>(op))
      return claimOf(conv, "weight_gradient", math);
    return NotMine{};
  }

private:
  template <typename Op>
  static ClaimAnswer claimOf(Op conv, StringRef kind, compiler::MathMode math) {
    for (Value value : {conv->getOperand(0), conv->getOperand(1), Value(conv->getResult(0))})
      if (std::optional<ClaimRefusal> refusal = refusalOf(typeOf(value)))
        return *refusal;
    Claim claim;
    Builder builder(conv.getContext());
    auto config = [&](StringRef name, Attribute value) {
      claim.config.emplace_back(builder.getStringAttr(name), value);
    };
    config("kind", builder.getStringAttr(kind));
    config("strides", conv.getStridesAttr());
    config("padding", conv.getPaddingAttr());
    config("dilation", conv.getDilationAttr());
    config("groups", conv.getGroupsAttr());
    if (math == compiler::MathMode::Fast)
      config("transforms", builder.getI64IntegerAttr(1));
    claim.ops.push_back(conv);
    claim.inputs.append(conv->operand_begin(), conv->operand_end());
    takeConversions(claim);
    claim.outputs.assign({claim.ops.back()->getResult(0)});
    return claim;
  }

  static std::optional<ClaimRefusal> refusalOf(RankedTensorType type) {
    if (!type.hasStaticShape())
      return ClaimRefusal{"dynamic-shape", "cuDNN's plans are made for sizes that are known"};
    // Those of 16-bit numbers are f32 ones of conversions here (weft-widen).
    if (!type.getElementType().isF32())
      return ClaimRefusal{"dtype",
                          "cuDNN's convolutions are claimed for float32 and 16-bit numbers only"};
    if (type.getNumElements() == 0)
      return ClaimRefusal{"empty", "there is nothing to multiply"};
    if (type.getNumElements() > kMostConvolutionElements)
      return ClaimRefusal{"too-large", "most of cuDNN's engines count elements in 32 bits"};
    return std::nullopt;
  }

  // Of both factors from one 16-bit type, and of the result to the same, as functions that round
  // once record them: then cuDNN reads and writes those numbers. All three or none, since it has
  // few engines for tensors of several types.
  static void takeConversions(Claim &claim) {
    SmallVector<Operation *> conversions;
    Type narrow;
    for (Value input : claim.inputs) {
      ir::CastOp widening = compiler::wideningOf(input);
      if (!widening)
        return;
      Type from = typeOf(widening.getInput()).getElementType();
      if (narrow && narrow != from)
        return;
      narrow = from;
      conversions.push_back(widening);
    }
    ir::CastOp rounding = roundingOf(claim, narrow);
    if (!rounding)
      return;
    for (auto [input, widening] : llvm::zip(claim.inputs, conversions))
      input = widening->getOperand(0);
    conversions.push_back(rounding);
    takeIn(claim, conversions);
  }
};

} // namespace

std::unique_ptr<compiler::Provider> makeConvolutionProvider() {
  return std::make_unique<ConvolutionProvider>();
}

} // namespace weft::backends::cuda
