// Values whose dims are turned, and attention, which takes them as they are.
#include "frontend/compile/row_joiner.h"

#include "dialects/weft/ir/Attention.h"
#include "dialects/weft/ir/LongDims.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

namespace weft::recorder {

bool RowJoiner::join_turned(Operation *op, const Order &order) {
  if (mlir::isa<ir::ReshapeOp, ir::BroadcastOp>(op))
    return keep(op, /*has_rows=*/false);
  auto weft = mlir::cast<ir::WeftOp>(op);
  bool is_alike = weft.kind() == ir::Kind::Elementwise ||
                  mlir::isa<ir::SliceOp, ir::InsertSliceOp, ir::ConcatOp, ir::SoftmaxOp>(op);
  if (!is_alike || op->getNumResults() != 1)
    return false;
  llvm::SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(turned_back(operand, order));
    if (!operands.back())
      return false;
  }
  Operation *same = builder_.clone(*op);
  same->setOperands(operands);
  same->getResult(0).setType(back_type(op->getResult(0), order));
  if (auto dim = op->getAttrOfType<mlir::IntegerAttr>("dim"))
    same->setAttr("dim", builder_.getI64IntegerAttr(order[dim.getInt()]));
  set_bounds(same, op, [&](llvm::ArrayRef<int64_t> bounds) {
    return mlir::applyPermutation(bounds, mlir::invertPermutationVector(order));
  });
  return join_new(same) && (turned_[op->getResult(0)] = {same->getResult(0), order}, true);
}

mlir::RankedTensorType RowJoiner::back_type(Value value, const Order &order) {
  Dims dims = dimsOf(value);
  mlir::applyPermutationToVector(dims, mlir::invertPermutationVector(order));
  return type_with(value, dims);
}

Value RowJoiner::turned_back(Value value, const Order &order) {
  if (auto found = turned_.find(value); found != turned_.end())
    return found->second.order == order ? found->second.value : Value();
  Operation *op = value.getDefiningOp();
  if (auto constant = mlir::dyn_cast_if_present<ir::ConstantOp>(op)) {
    auto splat = mlir::dyn_cast<mlir::SplatElementsAttr>(constant.getValue());
    if (!splat)
      return nullptr;
    auto same = mlir::cast<ir::ConstantOp>(builder_.clone(*op));
    mlir::RankedTensorType type = back_type(value, order);
    same.getResult().setType(type);
    same.setValueAttr(splat.resizeSplat(type));
    return join_new(same) ? Value(same) : Value();
  }
  auto broadcast = mlir::dyn_cast_if_present<ir::BroadcastOp>(op);
  if (!broadcast || lies_behind(broadcast.getInput()))
    return nullptr;
  // Dims of size 1 change places with the others, whose order stays.
  Dims from = dimsOf(broadcast.getInput()), back(order.size() - from.size(), Dim(1));
  llvm::append_range(back, from);
  mlir::applyPermutationToVector(back, mlir::invertPermutationVector(order));
  if (ir::longDims(from) != ir::longDims(back))
    return nullptr;
  Value input = reshape(value.getLoc(), broadcast.getInput(), type_with(value, back));
  Operation *same =
      ir::BroadcastOp::create(builder_, value.getLoc(), back_type(value, order), input);
  return join_new(same) ? same->getResult(0) : Value();
}

bool RowJoiner::join(ir::TransposeOp op) {
  llvm::ArrayRef<int64_t> order = op.getPermutation();
  int64_t rank = joined_rank(dimsOf(op.getInput()));
  bool is_behind = rank > 0;
  for (int64_t dim = 0; dim < rank; ++dim)
    is_behind &= order[dim] == dim;
  if (is_behind) {
    if (!join_alike(op))
      return false;
    llvm::SmallVector<int64_t> behind = {0};
    for (int64_t dim : order.drop_front(rank))
      behind.push_back(dim - rank + 1);
    mlir::cast<ir::TransposeOp>(made_).setPermutation(behind);
    return true;
  }
  if (moves_ones(dimsOf(op.getInput()), order))
    if (Value same = rows(op.getInput())) {
      settle(op.getResult(), reshape(op.getLoc(), same, joined_type(op.getResult())));
      return true;
    }
  bool is_turned = turned_.contains(op.getInput());
  if (!is_turned && is_kept(op.getInput()))
    return keep(op, /*has_rows=*/false);
  Order all(order);
  Value source = op.getInput();
  if (auto found = turned_.find(source); found != turned_.end()) {
    source = found->second.value;
    for (int64_t &dim : all)
      dim = found->second.order[dim];
  }
  if (!llvm::is_sorted(all)) {
    turned_[op.getResult()] = {source, all};
    return lies_behind(op.getResult());
  }
  Value same = rows(source);
  if (same)
    settle(op.getResult(), same);
  return same != nullptr;
}

bool RowJoiner::attend(Operation *op) {
  if (!ir::variesInLength(op) || !ir::whyNoLengths(op).empty())
    return false;
  // A mask with a row for each query and a column for each key.
  Value mask = ir::maskOf(op);
  Dims of_mask = mask ? dimsOf(mask) : Dims();
  if (of_mask.size() > 1 && !of_mask.back().isStatic() && !of_mask.end()[-2].isStatic() &&
      !wide_.of(mask))
    return false;
  auto queries = turned_.find(op->getOperand(0));
  Order order = queries == turned_.end() ? Order() : queries->second.order;
  if (!keep(op, /*has_rows=*/order.empty()))
    return false;
  for (auto [result, made] : llvm::zip_equal(op->getResults(), made_->getResults())) {
    if (!lies_behind(result) || order.size() != dimsOf(result).size() || order.empty())
      continue;
    Value turned = ir::TransposeOp::create(builder_, op->getLoc(), back_type(result, order), made,
                                           mlir::invertPermutationVector(order));
    rows_[turned] = ir::ReshapeOp::create(builder_, op->getLoc(), joined_type(turned), turned);
    turned_[result] = {turned, order};
  }
  return true;
}

bool RowJoiner::is_kept(Value value) const {
  auto found = kept_.find(value);
  return found != kept_.end() && !found->second.has_rows;
}

bool RowJoiner::keep(Operation *op, bool has_rows) {
  llvm::SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(wide_.contains(operand) ? wide_.apart(op->getLoc(), operand)
                                               : apart(op->getLoc(), operand));
  made_ = builder_.clone(*op);
  made_->setOperands(operands);
  for (auto [result, made] : llvm::zip_equal(op->getResults(), made_->getResults()))
    if (lies_behind(result))
      kept_[result] = {made, has_rows};
    else
      result.replaceAllUsesWith(made);
  return true;
}

} // namespace weft::recorder
