#include "backends/cpu/compile/ConvolutionProvider.h"

#include "backends/cpu/compile/Limits.h"
#include "backends/cpu/compile/SizeRange.h"
#include "backends/cpu/device/library_sizes.h"
#include "compiler/claim/ClaimSteps.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/SmallestSize.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"

namespace weft::backends::cpu {

using namespace mlir;

namespace {

using compiler::Claim;
using compiler::ClaimAnswer;
using compiler::ClaimRefusal;
using compiler::NotMine;
using compiler::typeOf;

// What a call could do to its results as it writes them (oneDNN 2.6.3), and whether conformance
// allows it:
//
//   bias                    claimed: one more term of the sum
//   batch norm, inference   claimed as a weight and a bias (weft-fold-batch-norm): MobileNetV2
//                           takes 4 to 10 % less time by it, MNasNet x0.5 13 %, ResNet-18 1 %.
//                           Where exact math leaves that out, it stays in the activation's kernel
//   ReLU, ReLU6             claimed where the entry has them for nothing. The library's fast
//                           kernels, for AVX-512 and AVX2, all turn NaN into 0; the entry notices,
//                           and computes such an image's convolution anew
//   maximum with a tensor   never: drops NaN
//   sum with a tensor       right, NaN kept; not claimed. The kernel of the activation behind it
//                           reads the other term in passing, while a call that adds it takes
//                           another implementation, and reads both terms as well
//   pooling                 never for maxima: drops NaN, ties go elsewhere; means are one kernel of
//                           ours with what feeds them
class ConvolutionProvider : public compiler::Provider {
public:
  ConvolutionProvider(bool bf16, ConvolutionTest takesRelu, ConvolutionTest takesRowMajorImage)
      : bf16_(bf16), takesRelu_(takesRelu), takesRowMajorImage_(takesRowMajorImage) {}
  StringRef name() const override {
    return "onednn.convolution";
  }
  bool takesVaryingSizes() const override {
    return true;
  }

  ClaimAnswer match(Operation *op, compiler::MathMode math) const override {
    ClaimAnswer answer = matchConvolution(op);
    if (auto *claim = std::get_if<Claim>(&answer)) {
      Builder builder(op->getContext());
      bool channelsLast = takeTransposes(*claim, builder);
      if (channelsLast && math != compiler::MathMode::Exact)
        allowWinograd(*claim, op, builder);
      bool isOfNarrow = bf16_ && takeWidenings(*claim);
      if (channelsLast && !isOfNarrow)
        takeRowMajorImage(*claim, dyn_cast<ir::Conv2dOp>(op), builder);
      if (isa<ir::Conv2dOp>(op)) {
        if (takeBias(*claim, channelsLast ? 3 : 1, /*rank=*/4))
          claim->set("bias", builder.getI64IntegerAttr(1));
        takeRelu(*claim, builder,
                 takesRelu_(problemOf(cast<ir::Conv2dOp>(op), *claim, channelsLast, isOfNarrow)));
      }
      // A weight's gradient is added up in parts, in f32.
      if (isOfNarrow && !isa<ir::Conv2dWeightGradientOp>(op))
        takeRounding(*claim, builder.getBF16Type());
      claim->outputs.assign({claim->ops.back()->getResult(0)});
    }
    if (!std::holds_alternative<NotMine>(answer))
      return answer;
    if (isa<ir::MaxPool2dOp>(op))
      return ClaimRefusal{"max-pool-drops-nan", "oneDNN's max pooling ignores NaN and breaks ties "
                                                "in another way; it stays a kernel of ours"};
    if (isa<ir::AvgPool2dOp, ir::AvgPool2dGradientOp, ir::MaxPool2dGradientOp>(op))
      return ClaimRefusal{"pooling-fuses",
                          "pooling is one kernel of ours, which takes in what feeds it"};
    return NotMine{};
  }

  bool prefersChannelsLast(Operation *op) const override {
    return std::holds_alternative<Claim>(matchConvolution(op));
  }

private:
  static ClaimAnswer matchConvolution(Operation *op) {
    if (auto conv = dyn_cast<ir::Conv2dOp>(op))
      return claimOf(conv, "forward", conv.getWeight(), conv.getResult());
    if (auto conv = dyn_cast<ir::Conv2dInputGradientOp>(op))
      return claimOf(conv, "input_gradient", conv.getWeight(), conv.getGradient());
    if (auto conv = dyn_cast<ir::Conv2dWeightGradientOp>(op))
      return claimOf(conv, "weight_gradient", conv.getResult(), conv.getGradient());
    return NotMine{};
  }

  // weight and result: of the convolution, whichever operands and results of the op they are.
  template <typename Op>
  static ClaimAnswer claimOf(Op conv, StringRef kind, Value weightValue, Value resultValue) {
    auto weight = typeOf(weightValue), result = typeOf(resultValue);
    for (Type type : llvm::concat<const Type>(llvm::to_vector(conv->getOperandTypes()),
                                              llvm::to_vector(conv->getResultTypes())))
      if (!cast<RankedTensorType>(type).hasStaticShape())
        return ClaimRefusal{"dynamic-shape",
                            "oneDNN's convolutions are made for sizes that are known"};
    // Those of 16-bit numbers are f32 ones of conversions here (weft-widen).
    if (!weight.getElementType().isF32())
      return ClaimRefusal{"dtype", "oneDNN's convolutions are claimed for float32 only"};
    if (result.getNumElements() == 0 || weight.getNumElements() == 0)
      return ClaimRefusal{"empty", "there is nothing to multiply"};
    int64_t depth = weight.getNumElements() / weight.getDimSize(0);
    if (result.getNumElements() < (kMinConvolutionMultiplications + depth - 1) / depth)
      return ClaimRefusal{"too-small",
                          "a call of the library takes longer than a convolution of this size"};
    for (int i = 0; i < 2; ++i)
      if (conv.getPadding()[i] > conv.getDilation()[i] * (weight.getDimSize(2 + i) - 1))
        return ClaimRefusal{
            "padding-beyond-kernel",
            "oneDNN has no fast convolution with windows that lie in the padding alone"};
    ir::Dim batch = ir::dimsOf(result)[0];
    auto image = typeOf(kind == "input_gradient" ? Value(conv->getResult(0)) : conv->getOperand(0));
    auto counts = [&](int64_t images) {
      return library_counts({images, image.getDimSize(2), image.getDimSize(3)}) &&
             library_counts({images, result.getDimSize(2), result.getDimSize(3)});
    };
    if (!library_counts({weight.getShape().data(), weight.getShape().size()}) ||
        !counts(batch.size)) {
      if (!batch.isStatic() && counts(ir::smallestSize(conv, batch)))
        return compiler::SometimesMine{kSometimesTooLarge};
      return ClaimRefusal{"too-large", "oneDNN counts in 32 bits"};
    }
    if (!batch.isStatic()) {
      int64_t ofImage = result.getNumElements() / batch.size,
              smallest = ir::smallestSize(conv, batch);
      if (smallest < 0 || ofImage * smallest < (kMinConvolutionMultiplications + depth - 1) / depth)
        return compiler::SometimesMine{kSometimesTooSmall};
    }
    Claim claim;
    compiler::describeConvolution(claim, conv, kind);
    return claim;
  }

  // Images that the program has with channels last, all or none: transposes from it in front of the
  // convolution, and to it behind.
  static bool takeTransposes(Claim &claim, Builder &builder) {
    Operation *conv = claim.ops.back();
    auto permutes = [](Operation *op, ArrayRef<int64_t> permutation) {
      auto transpose = dyn_cast_or_null<ir::TransposeOp>(op);
      return transpose && transpose.getPermutation() == permutation;
    };
    bool isWeightGradient = isa<ir::Conv2dWeightGradientOp>(conv);
    SmallVector<unsigned, 2> images{0};
    if (isWeightGradient)
      images.push_back(1);
    for (unsigned i : images)
      if (!permutes(claim.inputs[i].getDefiningOp(), {0, 3, 1, 2}))
        return false;
    Operation *behind = isWeightGradient ? nullptr : onlyUser(claim);
    if (!isWeightGradient && !permutes(behind, {0, 2, 3, 1}))
      return false;
    for (unsigned i : images) {
      Operation *transpose = claim.inputs[i].getDefiningOp();
      if (!llvm::is_contained(claim.ops, transpose))
        claim.ops.insert(claim.ops.begin(), transpose);
      claim.inputs[i] = transpose->getOperand(0);
    }
    if (behind)
      claim.ops.push_back(behind);
    claim.set("channels_last", builder.getI64IntegerAttr(1));
    return true;
  }

  // An image that was turned for this convolution alone, where the entry reads it as it was. One
  // that had its channels last before a transposition of the user's is left to the library.
  void takeRowMajorImage(Claim &claim, ir::Conv2dOp conv, Builder &builder) const {
    auto turn = claim.inputs[0].getDefiningOp<ir::TransposeOp>();
    if (!conv || !turn || !turn->hasOneUse() ||
        turn->getOperand(0).getDefiningOp<ir::TransposeOp>() ||
        turn.getPermutation() != ArrayRef<int64_t>{0, 2, 3, 1})
      return;
    ConvolutionProblem problem =
        problemOf(conv, claim, /*channelsLast=*/true, /*isOfNarrow=*/false);
    problem.row_major_image = true;
    if (!takesRowMajorImage_(problem))
      return;
    compiler::takeIn(claim, {turn});
    claim.inputs[0] = turn->getOperand(0);
    claim.set("row_major_image", builder.getI64IntegerAttr(1));
  }

  // The entry has the algorithm for images with channels last (winograd_convolution.h), and decides
  // by the shapes whether to take it. A weight is being trained where a weight's gradient reads the
  // image as well. A forward of training that is evaluated by itself counts as one whose weight
  // stays: nothing in its program tells, and what is learned from run to run must change no bit.
  static void allowWinograd(Claim &claim, Operation *op, Builder &builder) {
    bool isWeightGradient = isa<ir::Conv2dWeightGradientOp>(op);
    auto weight = typeOf(isWeightGradient ? op->getResult(0) : op->getOperand(1));
    if (weight.getDimSize(2) != 3 || weight.getDimSize(3) != 3)
      return;
    bool changes =
        isWeightGradient || llvm::any_of(op->getOperand(0).getUsers(), [](Operation *user) {
          return isa<ir::Conv2dWeightGradientOp>(user);
        });
    claim.set("winograd", builder.getStringAttr(changes ? "changing" : "stable"));
  }

  // Conversions of bf16 numbers in front of both factors, as functions that round once record them.
  static bool takeWidenings(Claim &claim) {
    Type narrow = BFloat16Type::get(claim.ops.back()->getContext());
    ir::CastOp image = compiler::wideningOf(claim.inputs[0], narrow),
               weight = compiler::wideningOf(claim.inputs[1], narrow);
    if (!image || !weight)
      return false;
    claim.inputs[0] = image.getInput();
    claim.inputs[1] = weight.getInput();
    takeIn(claim, {image, weight});
    return true;
  }

  // As the entry reads it from the call; of the most images, where their number varies.
  static ConvolutionProblem problemOf(ir::Conv2dOp conv, const Claim &claim, bool channelsLast,
                                      bool isOfNarrow) {
    ConvolutionProblem p;
    p.dtype = isOfNarrow ? DType::kBFloat16 : DType::kFloat32;
    for (auto [to, type] : {std::pair(&p.image, typeOf(conv->getOperand(0))),
                            std::pair(&p.weight, typeOf(conv->getOperand(1))),
                            std::pair(&p.result, typeOf(conv->getResult(0)))})
      llvm::copy(type.getShape(), to->begin());
    for (auto [to, pair] :
         {std::pair(&p.strides, conv.getStrides()), std::pair(&p.padding, conv.getPadding()),
          std::pair(&p.dilation, conv.getDilation())})
      llvm::copy(pair, to->begin());
    p.groups = conv.getGroups();
    p.channels_last = channelsLast;
    for (NamedAttribute entry : claim.config)
      if (entry.getName() == "winograd")
        p.winograd = winograd_of(cast<StringAttr>(entry.getValue()).getValue());
      else if (entry.getName() == "row_major_image")
        p.row_major_image = true;
    return p;
  }

  static void takeRelu(Claim &claim, Builder &builder, bool isFree) {
    Operation *relu = onlyUser(claim);
    if (!isa_and_nonnull<ir::ReluOp, ir::Relu6Op>(relu))
      return;
    if (!isFree) {
      claim.left.push_back(
          {relu, ClaimRefusal{"relu-drops-nan", "oneDNN's ReLU turns NaN into 0, and does not tell "
                                                "here; it stays a kernel of ours"}});
      return;
    }
    claim.ops.push_back(relu);
    claim.set("post_ops", builder.getStringAttr(isa<ir::ReluOp>(relu) ? "relu" : "relu6"));
  }

  bool bf16_;
  ConvolutionTest takesRelu_, takesRowMajorImage_;
};

} // namespace

std::unique_ptr<compiler::Provider> makeConvolutionProvider(bool bf16, ConvolutionTest takesRelu,
                                                            ConvolutionTest takesRowMajorImage) {
  return std::make_unique<ConvolutionProvider>(bf16, takesRelu, takesRowMajorImage);
}

} // namespace weft::backends::cpu
