#include "backends/cuda/compile/ConvolutionProvider.h"

#include "backends/cuda/compile/Limits.h"
#include "compiler/claim/ClaimSteps.h"
#include "dialects/weft/ir/SizeNames.h"
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

constexpr StringLiteral kWideBias =
    "cuDNN adds a bias of its factors' dtype; with one in float32 the convolution is of float32";

class ConvolutionProvider : public compiler::Provider {
public:
  StringRef name() const override {
    return "cudnn.convolution";
  }
  bool takesVaryingSizes() const override {
    return true;
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
  static constexpr const char *kTooLarge = "too-large";

  template <typename Op>
  static ClaimAnswer claimOf(Op conv, StringRef kind, compiler::MathMode math) {
    for (Value value : {conv->getOperand(0), conv->getOperand(1), Value(conv->getResult(0))})
      if (std::optional<ClaimRefusal> refusal = refusalOf(typeOf(value))) {
        if (refusal->reason == kTooLarge && ir::hasNamedDims(value.getType()))
          return compiler::SometimesMine{"cuDNN counts elements in 32 bits, and the largest "
                                         "convolution of the range has too many"};
        return *refusal;
      }
    Claim claim;
    Builder builder(conv.getContext());
    compiler::describeConvolution(claim, conv, kind);
    if (math == compiler::MathMode::Fast)
      claim.set("transforms", builder.getI64IntegerAttr(1));
    // That of a single channel is one number, which is broadcast in one way or another: all of them
    // stay a kernel's, so that bits do not depend on it.
    if (isa<ir::Conv2dOp>(conv) && typeOf(conv->getResult(0)).getDimSize(1) > 1 &&
        takeBias(claim, /*dim=*/1, /*rank=*/4))
      claim.set("bias", builder.getI64IntegerAttr(1));
    takeConversions(claim);
    compiler::leaveActivation<ir::ReluOp>(
        claim, "relu-drops-nan",
        "cuDNN's ReLU turns NaN into 0 unless it is told otherwise; it stays a kernel of ours");
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
      return ClaimRefusal{kTooLarge, "most of cuDNN's engines count elements in 32 bits"};
    return std::nullopt;
  }

  // Of both factors and the bias from one 16-bit type, and of the result to the same, as functions
  // that round once record them: then cuDNN reads and writes those numbers. All or none, since it
  // has few engines for tensors of several types.
  static void takeConversions(Claim &claim) {
    SmallVector<Value> inputs;
    SmallVector<Operation *> ops;
    Type narrow;
    for (auto [i, input] : llvm::enumerate(claim.inputs)) {
      Value value = input;
      bool isBias = i == 2; // a number a channel, in whatever shape
      while (auto reshape = isBias ? value.getDefiningOp<ir::ReshapeOp>() : ir::ReshapeOp()) {
        ops.push_back(reshape);
        value = reshape.getInput();
      }
      ir::CastOp widening = compiler::wideningOf(value, narrow);
      if (!widening) {
        ir::CastOp rounding = isBias ? roundingOf(claim, narrow) : ir::CastOp();
        if (rounding)
          claim.left.push_back({rounding, ClaimRefusal{"wide-bias", kWideBias}});
        return;
      }
      ops.push_back(widening);
      inputs.push_back(widening.getInput());
      narrow = typeOf(inputs.back()).getElementType();
    }
    ir::CastOp rounding = roundingOf(claim, narrow);
    if (!rounding)
      return;
    ops.push_back(rounding);
    takeIn(claim, ops);
    claim.inputs.assign(inputs);
  }
};

} // namespace

std::unique_ptr<compiler::Provider> makeConvolutionProvider() {
  return std::make_unique<ConvolutionProvider>();
}

} // namespace weft::backends::cuda
