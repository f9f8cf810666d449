// weft-fold-batch-norm: one walk forward marks values that depend on weights of the program and
// constants only, then each convolution with such a weight looks at the chain of its only readers:
// products, sums and differences with one such number a channel become part of its weight and of
// one bias. Weak: a chain ends at the first value with two readers, and where a number is broadcast
// over anything but channels.
#include "compiler/graph/Passes.h"
#include "compiler/graph/Slice.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/Broadcasts.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"

namespace weft::compiler {

#define GEN_PASS_DEF_FOLDBATCHNORMPASS
#include "compiler/graph/Passes.h.inc"

namespace {

mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

class FoldBatchNormPass : public impl::FoldBatchNormPassBase<FoldBatchNormPass> {
public:
  using FoldBatchNormPassBase::FoldBatchNormPassBase;

  void runOnOperation() override {
    mlir::func::FuncOp main = sliceMain(getOperation());
    if (!main)
      return signalPassFailure();
    if (!findKnown(main))
      return;
    // The ops behind a convolution are erased with it.
    auto convolutions = llvm::to_vector(main.getBody().front().getOps<ir::Conv2dOp>());
    for (ir::Conv2dOp conv : convolutions)
      fold(conv);
  }

private:
  // Of the arguments that stay the same, those that a compilation ahead of time was given as
  // weights. In a process a leaf is found to be stable after some runs (weft.stable); that must
  // change no bit.
  bool findKnown(mlir::func::FuncOp main) {
    known_.clear();
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      if (main.getArgAttr(i, ir::kParameterAttr) && !main.getArgAttr(i, ir::kDonatableAttr))
        known_.insert(main.getArgument(i));
    if (known_.empty())
      return false;
    for (mlir::Operation &op : main.getBody().front().without_terminator())
      if (mlir::isa<ir::WeftOp>(op) && mlir::isMemoryEffectFree(&op) &&
          llvm::all_of(op.getOperands(),
                       [&](mlir::Value operand) { return known_.contains(operand); }))
        known_.insert(op.result_begin(), op.result_end());
    return true;
  }

  // What is known and broadcast to one number a channel of [N, C, H, W]; null for anything else.
  mlir::Value channelVector(mlir::Value value) {
    auto broadcast = value.getDefiningOp<ir::BroadcastOp>();
    return broadcast && known_.contains(broadcast.getInput()) ? ir::vectorAlong(broadcast, 1)
                                                              : nullptr;
  }

  void fold(ir::Conv2dOp conv) {
    if (!known_.contains(conv.getWeight()) || !typeOf(conv).hasStaticShape())
      return;
    // value = scale * convolution + shift, one number of each a channel, or none.
    struct Step {
      mlir::Operation *op;
      mlir::Value vector;
    };
    llvm::SmallVector<Step, 4> steps;
    bool scales = false;
    for (mlir::Value value = conv.getResult(); value.hasOneUse();) {
      mlir::Operation *user = *value.user_begin();
      if (!mlir::isa<ir::AddOp, ir::SubOp, ir::MulOp>(user))
        break;
      bool isLeft = user->getOperand(0) == value;
      if (mlir::isa<ir::SubOp>(user) && !isLeft)
        break;
      mlir::Value vector = channelVector(user->getOperand(isLeft ? 1 : 0));
      if (!vector)
        break;
      steps.push_back({user, vector});
      scales |= mlir::isa<ir::MulOp>(user);
      value = user->getResult(0);
    }
    // Sums alone are a bias already.
    if (!scales)
      return;

    mlir::Operation *last = steps.back().op;
    mlir::OpBuilder builder(last);
    mlir::Location loc = conv.getLoc();
    mlir::Type element = typeOf(conv).getElementType();
    int64_t channels = typeOf(conv).getDimSize(1);
    auto shaped = [&](mlir::Value value, llvm::ArrayRef<int64_t> shape) -> mlir::Value {
      auto type = mlir::RankedTensorType::get(shape, element);
      return value.getType() == type ? value
                                     : ir::ReshapeOp::create(builder, loc, type, value).getResult();
    };
    mlir::Value scale, shift;
    for (const Step &step : steps) {
      mlir::Value vector = shaped(step.vector, {channels, 1, 1});
      if (mlir::isa<ir::MulOp>(step.op)) {
        scale = scale ? ir::MulOp::create(builder, loc, scale, vector).getResult() : vector;
        if (shift)
          shift = ir::MulOp::create(builder, loc, shift, vector);
      } else if (mlir::isa<ir::AddOp>(step.op)) {
        shift = shift ? ir::AddOp::create(builder, loc, shift, vector).getResult() : vector;
      } else {
        shift = shift ? ir::SubOp::create(builder, loc, shift, vector).getResult()
                      : ir::NegOp::create(builder, loc, vector).getResult();
      }
    }
    mlir::Value weight = conv.getWeight();
    mlir::Value factor =
        ir::BroadcastOp::create(builder, loc, weight.getType(), shaped(scale, {channels, 1, 1, 1}));
    mlir::IRMapping mapping;
    mapping.map(weight, ir::MulOp::create(builder, loc, weight, factor).getResult());
    mlir::Value result = builder.clone(*conv, mapping)->getResult(0);
    if (shift) {
      mlir::Value bias = ir::BroadcastOp::create(builder, loc, result.getType(), shift);
      result = ir::AddOp::create(builder, last->getLoc(), result, bias);
    }
    last->getResult(0).replaceAllUsesWith(result);
    for (const Step &step : llvm::reverse(steps))
      step.op->erase();
    conv.erase();
    ++numFolded;
  }

  llvm::DenseSet<mlir::Value> known_;
};

} // namespace
} // namespace weft::compiler
