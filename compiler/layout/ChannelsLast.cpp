#include "compiler/layout/ChannelsLast.h"

#include "compiler/layout/LayoutLimits.h"
#include "compiler/pipeline/CallUser.h"
#include "dialects/weft/ir/Dims.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Builders.h"

namespace weft::compiler {

using namespace mlir;
using ir::typeOf;

namespace {

// result dim i is input dim kToLast[i]: [N, C, H, W] to [N, H, W, C], and back.
constexpr int64_t kToLast[] = {0, 2, 3, 1}, kToFirst[] = {0, 3, 1, 2};

bool isImage(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() == 4 && type.getElementType().isIntOrFloat();
}
int64_t bytesOf(Value value) {
  auto type = typeOf(value);
  return type.getNumElements() *
         std::max<int64_t>(1, type.getElementType().getIntOrFloatBitWidth() / 8);
}
int64_t bytesOfImage(Value value) {
  return bytesOf(value) / std::max<int64_t>(1, typeOf(value).getDimSize(0));
}
RankedTensorType lastType(RankedTensorType type) {
  ir::Dims dims = ir::dimsOf(type), permuted;
  for (int64_t from : kToLast)
    permuted.push_back(dims[from]);
  return ir::tensorOf(permuted, type.getElementType());
}
template <typename T> SmallVector<T> toLast(ArrayRef<T> perDim) {
  SmallVector<T> result;
  for (int64_t from : kToLast)
    result.push_back(perDim[from]);
  return result;
}
// Where a dim of [N, C, H, W] stands in [N, H, W, C].
int64_t dimInLast(int64_t dim) {
  return llvm::find(kToLast, dim) - std::begin(kToLast);
}

bool isDecomposable(Operation *op) {
  return isa<ir::BatchNormOp, ir::MaxPool2dOp, ir::MaxPool2dGradientOp>(op);
}
// Of Weft's own, all of whose attributes are known.
bool isReduction(Operation *op) {
  return ir::isOwn(op) && cast<ir::WeftOp>(op).kind() == ir::Kind::Reduction;
}
bool isElementwise(Operation *op) {
  return cast<ir::WeftOp>(op).kind() == ir::Kind::Elementwise;
}
ArrayRef<int64_t> reducedDims(Operation *op) {
  return cast<DenseI64ArrayAttr>(*op->getInherentAttr("dims")).asArrayRef();
}
DenseI64ArrayAttr list(Operation *op, ArrayRef<int64_t> values) {
  return DenseI64ArrayAttr::get(op->getContext(), values);
}

} // namespace

SmallVector<unsigned, 2> ChannelsLast::imageOperands(Operation *op) const {
  if (!isa<ir::Conv2dOp, ir::Conv2dInputGradientOp, ir::Conv2dWeightGradientOp>(op))
    return {};
  auto prefers = [&](const std::shared_ptr<const Provider> &provider) {
    return callUser(
        [&] { return ("prefersChannelsLast() of the provider '" + provider->name() + "'").str(); },
        [&] { return provider->prefersChannelsLast(op); });
  };
  if (llvm::none_of(providers_.providers(), prefers))
    return {};
  if (isa<ir::Conv2dWeightGradientOp>(op))
    return {0, 1};
  return {0};
}

bool ChannelsLast::isFree(Value value) const {
  return free_.contains(value);
}

bool ChannelsLast::runsChannelsLast(Operation *op) const {
  auto isLast = [&](Value value) {
    return values_.contains(value);
  };
  if (isElementwise(op))
    return isImage(op->getResult(0)) && llvm::any_of(op->getOperands(), isLast);
  if (isReduction(op))
    return isLast(op->getOperand(0));
  // Of one number a channel, in networks that weigh channels.
  if (isa<ir::BroadcastOp>(op))
    return isImage(op->getResult(0)) && isLast(op->getOperand(0));
  return (isDecomposable(op) || isa<ir::SliceOp, ir::InsertSliceOp, ir::ConcatOp>(op)) &&
         llvm::any_of(op->getOperands(), isLast);
}

void ChannelsLast::countTranspose(Value value) {
  if (isFree(value) || !transposed_.insert(value).second)
    return;
  ++numTransposes_;
  transposedBytes_ += bytesOf(value);
  transposedOfImage_ += bytesOfImage(value);
}

void ChannelsLast::analyze() {
  ops_.clear(), values_.clear(), free_.clear(), transposed_.clear(), composites_.clear();
  transposedBytes_ = copiedBytes_ = numTransposes_ = numConvolutions_ = transposedOfImage_ =
      copiedOfImage_ = 0;
  for (Operation &each : block_) {
    Operation *op = &each;
    if (!isa<ir::WeftOp>(op)) {
      for (Value operand : op->getOperands())
        if (values_.contains(operand))
          countTranspose(operand);
      continue;
    }
    SmallVector<unsigned, 2> images = imageOperands(op);
    bool runs = !images.empty() || runsChannelsLast(op);
    if (!runs) {
      for (Value operand : op->getOperands())
        if (values_.contains(operand))
          countTranspose(operand);
      if (op->getNumResults() != 1 || !isImage(op->getResult(0)))
        continue;
      bool isSplat = false;
      if (auto constant = dyn_cast<ir::ConstantOp>(op))
        isSplat = isa<SplatElementsAttr>(constant.getValue());
      auto broadcast = dyn_cast<ir::BroadcastOp>(op);
      bool isSmall = broadcast && !values_.contains(broadcast.getInput()) &&
                     typeOf(broadcast.getInput()).getElementType().isIntOrFloat() &&
                     typeOf(broadcast.getInput()).getNumElements() * limits::kMinBroadcastFactor <=
                         typeOf(op->getResult(0)).getNumElements();
      bool ofFree = isElementwise(op) && op->getNumOperands() > 0 &&
                    llvm::all_of(op->getOperands(), [&](Value v) { return isFree(v); });
      if (isSplat || isSmall || ofFree)
        free_.insert(op->getResult(0));
      continue;
    }
    ops_.insert(op);
    if (!images.empty()) {
      ++numConvolutions_;
      bool isWeightGradient = isa<ir::Conv2dWeightGradientOp>(op);
      auto weight = typeOf(isWeightGradient ? op->getResult(0) : op->getOperand(1));
      SmallVector<Value, 2> all;
      for (unsigned i : images)
        all.push_back(op->getOperand(i));
      if (!isWeightGradient)
        all.push_back(op->getResult(0));
      if (weight.getDimSize(2) * weight.getDimSize(3) > 1)
        for (Value image : all)
          if (typeOf(image).getDimSize(1) >= limits::kMinBlockedChannels) {
            copiedBytes_ += bytesOf(image);
            copiedOfImage_ += bytesOfImage(image);
          }
    }
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      if (isImage(operand) && !values_.contains(operand) &&
          (images.empty() || llvm::is_contained(images, i)))
        countTranspose(operand);
    if (isDecomposable(op))
      composites_.push_back(op);
    if (!isa<ir::Conv2dWeightGradientOp>(op) && !isReduction(op))
      for (Value result : op->getResults())
        if (isImage(result))
          values_.insert(result);
  }
}

bool ChannelsLast::pays() const {
  return copiedOfImage_ >= limits::kMinCopiedBytes &&
         transposedOfImage_ * limits::kTransposeCost < copiedOfImage_;
}

//===-- Rewriting -----------------------------------------------------------------------------===//

// A free value once more, with channels last. Its operands, if they are free values, have been made
// already.
Value ChannelsLast::remade(Operation *op, OpBuilder &builder) {
  RankedTensorType type = lastType(typeOf(op->getResult(0)));
  if (auto constant = dyn_cast<ir::ConstantOp>(op))
    return ir::ConstantOp::create(builder, op->getLoc(),
                                  cast<DenseElementsAttr>(constant.getValue()).resizeSplat(type));
  if (auto broadcast = dyn_cast<ir::BroadcastOp>(op)) {
    RankedTensorType from = typeOf(broadcast.getInput());
    ir::Dims dims(4 - from.getRank(), ir::Dim(1));
    dims.append(ir::dimsOf(from));
    Value input = broadcast.getInput();
    if (from.getRank() != 4)
      input = ir::ReshapeOp::create(builder, op->getLoc(),
                                    ir::tensorOf(dims, from.getElementType()), input);
    // Where the dims that are not 1 keep their order (one number a channel), the transpose is a
    // reshape.
    SmallVector<ir::Dim> permuted = toLast<ir::Dim>(dims);
    SmallVector<int64_t> order;
    for (int64_t from : kToLast)
      if (!dims[from].isOne())
        order.push_back(from);
    if (llvm::is_sorted(order))
      input = ir::ReshapeOp::create(builder, op->getLoc(),
                                    ir::tensorOf(permuted, from.getElementType()), input);
    else
      input = ir::TransposeOp::create(builder, op->getLoc(), input, ArrayRef<int64_t>(kToLast));
    return ir::BroadcastOp::create(builder, op->getLoc(), type, input);
  }
  Operation *copy = builder.clone(*op);
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    copy->setOperand(i, last_.lookup(operand));
  copy->getResult(0).setType(type);
  return copy->getResult(0);
}

Value ChannelsLast::channelsLast(Value value) {
  if (Value known = last_.lookup(value))
    return known;
  if (isFree(value)) {
    // Each op after its operands, without recursion: chains of elementwise ops on constants and
    // broadcasts may be long.
    SmallVector<std::pair<Operation *, unsigned>> stack{{value.getDefiningOp(), 0}};
    while (!stack.empty()) {
      auto &[op, next] = stack.back();
      if (isElementwise(op) && next < op->getNumOperands()) {
        Value operand = op->getOperand(next++);
        if (!last_.contains(operand))
          stack.push_back({operand.getDefiningOp(), 0});
        continue;
      }
      OpBuilder builder(op->getContext());
      builder.setInsertionPointAfter(op);
      Operation *done = op;
      stack.pop_back();
      // Operands in the other order may stand behind `done`: all are made right after what they are
      // made from, hence before its users.
      if (!last_.contains(done->getResult(0)))
        last_[done->getResult(0)] = remade(done, builder);
    }
    return last_.lookup(value);
  }
  OpBuilder builder(block_.getParentOp()->getContext());
  builder.setInsertionPointAfterValue(value);
  Value result =
      ir::TransposeOp::create(builder, value.getLoc(), value, ArrayRef<int64_t>(kToLast));
  return last_[value] = result;
}

Value ChannelsLast::rowMajorValue(Value value) {
  if (Value known = back_.lookup(value))
    return known;
  Value last = last_.lookup(value);
  OpBuilder builder(block_.getParentOp()->getContext());
  builder.setInsertionPointAfterValue(last);
  Value result =
      ir::TransposeOp::create(builder, value.getLoc(), last, ArrayRef<int64_t>(kToFirst));
  return back_[value] = result;
}

void ChannelsLast::applyConvolution(Operation *op) {
  for (unsigned i : imageOperands(op)) {
    Value last = channelsLast(op->getOperand(i));
    OpBuilder builder(op);
    op->setOperand(
        i, ir::TransposeOp::create(builder, op->getLoc(), last, ArrayRef<int64_t>(kToFirst)));
  }
  if (isa<ir::Conv2dWeightGradientOp>(op))
    return;
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  last_[op->getResult(0)] =
      ir::TransposeOp::create(builder, op->getLoc(), op->getResult(0), ArrayRef<int64_t>(kToLast));
}

void ChannelsLast::applyOther(Operation *op) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(isImage(operand) ? channelsLast(operand) : operand);
  OpBuilder builder(op);
  Value result = op->getResult(0);
  if (isReduction(op)) {
    SmallVector<int64_t> dims;
    for (int64_t dim : reducedDims(op))
      dims.push_back(dimInLast(dim));
    llvm::sort(dims);
    Operation *copy = builder.clone(*op);
    copy->setOperands(operands);
    copy->setAttr("dims", list(op, dims));
    // The dims that stay, in their order; as the op gave them again where that differs.
    SmallVector<int64_t> stay, permutation;
    for (int64_t dim : kToLast)
      if (!llvm::is_contained(reducedDims(op), dim))
        stay.push_back(dim);
    ir::Dims all = ir::dimsOf(op->getOperand(0)), kept;
    for (int64_t dim : stay)
      kept.push_back(all[dim]);
    copy->getResult(0).setType(ir::tensorOf(kept, typeOf(result).getElementType()));
    Value reduced = copy->getResult(0);
    if (!llvm::is_sorted(stay)) {
      SmallVector<int64_t> sorted(stay);
      llvm::sort(sorted);
      for (int64_t dim : sorted)
        permutation.push_back(llvm::find(stay, dim) - stay.begin());
      reduced = ir::TransposeOp::create(builder, op->getLoc(), reduced, permutation);
    }
    result.replaceAllUsesWith(reduced);
    return;
  }
  if (auto slice = dyn_cast<ir::SliceOp>(op)) {
    last_[result] =
        ir::SliceOp::create(builder, op->getLoc(), operands[0], toLast<int64_t>(slice.getStarts()),
                            toLast<int64_t>(slice.getLimits()), toLast<int64_t>(slice.getSteps()));
    return;
  }
  if (auto insert = dyn_cast<ir::InsertSliceOp>(op)) {
    last_[result] = ir::InsertSliceOp::create(
        builder, op->getLoc(), operands[0].getType(), operands[0], operands[1],
        toLast<int64_t>(insert.getStarts()), toLast<int64_t>(insert.getSteps()));
    return;
  }
  if (auto concat = dyn_cast<ir::ConcatOp>(op)) {
    int64_t dim = concat.getDim() < 0 ? concat.getDim() + 4 : concat.getDim();
    last_[result] = ir::ConcatOp::create(builder, op->getLoc(), operands, dimInLast(dim));
    return;
  }
  Operation *copy = builder.clone(*op);
  copy->setOperands(operands);
  copy->getResult(0).setType(lastType(typeOf(result)));
  last_[result] = copy->getResult(0);
}

void ChannelsLast::apply() {
  SmallVector<Operation *> order;
  for (Operation &op : block_)
    order.push_back(&op);
  SmallVector<Operation *> gone;
  for (Operation *op : order) {
    bool runs = ops_.contains(op);
    if (runs && !imageOperands(op).empty()) {
      applyConvolution(op);
    } else if (runs) {
      applyOther(op);
      gone.push_back(op);
    } else {
      for (OpOperand &operand : op->getOpOperands())
        if (values_.contains(operand.get()))
          operand.set(rowMajorValue(operand.get()));
    }
  }
  for (Operation *op : llvm::reverse(gone))
    op->erase();
}

} // namespace weft::compiler
