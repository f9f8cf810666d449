// weft-fold-batch-norm: one walk over the norms with fixed statistics; each looks at the
// convolution whose only reader it is, with a bias between the two or without. Weak: a norm that is
// written out as products and sums is none.
#include "compiler/graph/Passes.h"
#include "compiler/graph/Slice.h"
#include "dialects/weft/ir/Broadcasts.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/rules/Rules.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"

namespace weft::compiler {

using namespace mlir;

#define GEN_PASS_DEF_FOLDBATCHNORMPASS
#include "compiler/graph/Passes.h.inc"

namespace {

using ir::Val;

bool isFloat32(Value value) {
  return getElementTypeOrSelf(value.getType()).isF32();
}

class FoldBatchNormPass : public impl::FoldBatchNormPassBase<FoldBatchNormPass> {
public:
  using FoldBatchNormPassBase::FoldBatchNormPassBase;

  void runOnOperation() override {
    func::FuncOp main = sliceMain(getOperation());
    if (!main)
      return signalPassFailure();
    Block &block = main.getBody().front();
    trained_.clear();
    for (auto gradient : block.getOps<ir::Conv2dWeightGradientOp>())
      trained_.insert(gradient.getInput());
    // The ops before a norm are erased with it.
    for (ir::BatchNormInferenceOp norm : llvm::to_vector(block.getOps<ir::BatchNormInferenceOp>()))
      if (Chain chain = chainBefore(norm); chain.convolution)
        fold(chain, norm);
  }

private:
  struct Chain {
    ir::Conv2dOp convolution;
    ir::AddOp sum;    // of the convolution and a bias, if there is one
    Value bias;       // one number a channel
  };

  Chain chainBefore(ir::BatchNormInferenceOp norm) const {
    Chain chain;
    Value value = norm.getInput();
    if (auto sum = value.getDefiningOp<ir::AddOp>(); sum && value.hasOneUse())
      for (unsigned i = 0; i < 2 && !chain.sum; ++i)
        if (auto spread = sum->getOperand(1 - i).getDefiningOp<ir::BroadcastOp>())
          if (Value bias = ir::vectorAlong(spread, 1)) {
            chain.sum = sum;
            chain.bias = bias;
            value = sum->getOperand(i);
          }
    auto convolution = value.getDefiningOp<ir::Conv2dOp>();
    if (convolution && value.hasOneUse() && isFloat32(value) &&
        !trained_.contains(convolution.getInput()))
      chain.convolution = convolution;
    return chain;
  }

  // With s = rsqrt(variance + eps) weight: ((x * w + b) - mean) s + bias is
  // x * (w s) + ((b - mean) s + bias).
  void fold(Chain chain, ir::BatchNormInferenceOp norm) {
    OpBuilder builder(norm);
    ir::Conv2dOp conv = chain.convolution;
    int64_t channels = ir::typeOf(conv).getDimSize(1);
    Val variance(builder, norm.getLoc(), norm.getVariance());
    Val scale = ir::rsqrt(variance + norm.getEps().convertToDouble());
    if (Value weight = norm.getWeight())
      scale = scale * scale.at(weight);
    Val shift = -scale.at(norm.getMean());
    if (chain.bias)
      shift = ir::reshape(scale.at(chain.bias), {channels}) + shift;
    shift = shift * scale;
    if (Value bias = norm.getBias())
      shift = shift + scale.at(bias);

    Val weight(builder, conv.getLoc(), conv.getWeight());
    Val factor = ir::broadcast(ir::reshape(scale, {channels, 1, 1, 1}), weight.shape());
    IRMapping mapping;
    mapping.map(conv.getWeight(), (weight * factor).value());
    Val result = scale.at(builder.clone(*conv, mapping)->getResult(0));
    result =
        result + ir::broadcastTo(ir::reshape(shift, {channels, 1, 1}), ir::dimsOf(result.type()));
    norm.replaceAllUsesWith(result.value());
    norm.erase();
    if (chain.sum)
      chain.sum.erase();
    conv.erase();
    ++numFolded;
  }

  DenseSet<Value> trained_; // images that a gradient of a weight reads
};

} // namespace
} // namespace weft::compiler
