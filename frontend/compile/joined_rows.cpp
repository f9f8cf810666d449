#include "frontend/compile/row_joiner.h"

#include "dialects/weft/ir/Attention.h"
#include "frontend/compile/refusal.h"

namespace weft::recorder {

absl::Status RowJoiner::run(std::vector<Operation *> &ops) {
  mlir::Block &block = main_.getBody().front();
  builder_.setInsertionPointToStart(&block);
  for (Value argument : block.getArguments())
    if (lies_behind(argument))
      rows_[argument] = reshape(main_.getLoc(), argument, joined_type(argument));
  for (Operation *&op : ops) {
    if (llvm::none_of(op->getOperands(), lies_behind) &&
        llvm::none_of(op->getResults(), lies_behind))
      continue;
    builder_.setInsertionPoint(op);
    made_ = nullptr;
    if (varying_.contains(op) || !join(op))
      return too_few_.ok() ? refuse(op) : too_few_;
    replaced_.push_back(op);
    op = made_;
  }
  Operation *terminator = block.getTerminator();
  builder_.setInsertionPoint(terminator);
  for (mlir::OpOperand &result : terminator->getOpOperands()) {
    Value value = result.get();
    if (wide_.contains(value) && !rows(value))
      return refuse(value.getDefiningOp());
    if (lies_behind(value))
      result.set(apart(terminator->getLoc(), value));
  }
  for (Operation *op : llvm::reverse(replaced_))
    op->erase();
  return absl::OkStatus();
}

absl::Status RowJoiner::refuse(Operation *op) const {
  if (absl::Status why = why_no_lengths(op); !why.ok())
    return why;
  auto found = llvm::find_if(op->getOperands(), lies_behind);
  Value value = found != op->operand_end() ? Value(*found)
                                           : *llvm::find_if(op->getResults(), lies_behind);
  return cannot(op, name_of(op) + ": a size that varies is not that of the leading dimension of " +
                        ir::spell(dimsOf(value)) +
                        ", whose rows it does not take one by one; keep it first");
}

bool RowJoiner::join(Operation *op) {
  if (auto transpose = mlir::dyn_cast<ir::TransposeOp>(op))
    return join(transpose);
  if (ir::isAttention(op))
    return attend(op);
  // What is no op on wide rows may be one on the rows of all that there is.
  if (wide_.takes(op) && (made_ = wide_.widen(op)))
    return true;
  for (Value operand : op->getOperands())
    if (auto found = turned_.find(operand); found != turned_.end())
      return join_turned(op, Order(found->second.order));
  if (mlir::isa<ir::ReshapeOp, ir::BroadcastOp>(op) && is_kept(op->getOperand(0)))
    return keep(op, /*has_rows=*/false);
  if (auto reshape = mlir::dyn_cast<ir::ReshapeOp>(op))
    return join(reshape);
  if (auto broadcast = mlir::dyn_cast<ir::BroadcastOp>(op))
    return join(broadcast);
  if (auto slice = mlir::dyn_cast<ir::SliceOp>(op))
    return join(slice);
  if (auto insert = mlir::dyn_cast<ir::InsertSliceOp>(op))
    return join(insert);
  if (auto matmul = mlir::dyn_cast<ir::MatmulOp>(op))
    return multiply(matmul);
  if (auto norm = mlir::dyn_cast<ir::LayerNormOp>(op))
    return normalized_behind(norm) && join_alike(op);
  if (auto constant = mlir::dyn_cast<ir::ConstantOp>(op))
    return mlir::isa<mlir::SplatElementsAttr>(constant.getValue()) && join_alike(op);
  if (mlir::isa<ir::SoftmaxOp, ir::LogSoftmaxOp, ir::ArgMaxOp, ir::ArgMinOp, ir::ArgSortOp,
                ir::ConcatOp, ir::IotaOp>(op))
    return join_along(op);
  if (mlir::isa<ir::CrossEntropyOp, ir::DropoutOp>(op))
    return join_alike(op);
  if (mlir::isa<ir::IndexSelectOp, ir::IndexAddOp, ir::IndexPutOp>(op))
    return join_indexed(op);
  switch (mlir::cast<ir::WeftOp>(op).kind()) {
  case ir::Kind::Elementwise:
  case ir::Kind::Random:
    return join_alike(op);
  case ir::Kind::Reduction:
    return join_reduction(op);
  case ir::Kind::Gather:
  case ir::Kind::Scatter:
  case ir::Kind::Scan:
    return ir::isOwn(op) && join_along(op);
  default:
    return false;
  }
}

Value RowJoiner::reshape(mlir::Location loc, Value value, mlir::RankedTensorType type) {
  if (value.getType() == type)
    return value;
  made_ = ir::ReshapeOp::create(builder_, loc, type, value);
  return made_->getResult(0);
}

Value RowJoiner::flattened(Value value, int64_t rank) {
  return reshape(value.getLoc(), value, type_with(value, flat(dimsOf(value), rank)));
}

Value RowJoiner::rows(Value value) {
  if (!lies_behind(value))
    return value;
  if (auto found = rows_.find(value); found != rows_.end())
    return found->second;
  if (wide_.contains(value))
    return rows_[value] = wide_.dense(value);
  auto found = kept_.find(value);
  if (found == kept_.end() || !found->second.has_rows)
    return nullptr;
  return rows_[value] = reshape(value.getLoc(), found->second.value, joined_type(value));
}

Value RowJoiner::apart(mlir::Location loc, Value value) {
  if (auto found = kept_.find(value); found != kept_.end())
    return found->second.value;
  if (auto found = turned_.find(value); found != turned_.end())
    return ir::TransposeOp::create(builder_, loc, typeOf(value), apart(loc, found->second.value),
                                   found->second.order);
  auto found = rows_.find(value);
  return found == rows_.end() ? value : reshape(loc, found->second, typeOf(value));
}

bool RowJoiner::join_new(Operation *op) {
  mlir::OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPoint(op);
  if (llvm::none_of(op->getOperands(), lies_behind) &&
      llvm::none_of(op->getResults(), lies_behind))
    return true;
  if (!join(op))
    return false;
  replaced_.push_back(op);
  return true;
}

bool RowJoiner::join_alike(Operation *op) {
  llvm::SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(rows(operand));
    if (!operands.back())
      return false;
  }
  again(op, operands);
  return true;
}

void RowJoiner::again(Operation *op, mlir::ValueRange operands) {
  made_ = builder_.clone(*op);
  made_->setOperands(operands);
  for (auto [result, made] : llvm::zip_equal(op->getResults(), made_->getResults())) {
    made.setType(joined_type(result));
    settle(result, made);
  }
}

bool RowJoiner::multiply(ir::MatmulOp op) {
  Dims lhs = dimsOf(op.getLhs()), rhs = dimsOf(op.getRhs());
  llvm::ArrayRef<Dim> matrix = llvm::ArrayRef(rhs).take_back(2);
  if (op.getTransposeLhs() || joined_rank(lhs) + 1 != static_cast<int64_t>(lhs.size()) ||
      place_of(rhs) != -1 || !ir::productDim(llvm::ArrayRef(rhs).drop_back(2)).isOne())
    return false;
  Value from = rows(op.getLhs());
  if (!from)
    return false;
  again(op, {from, reshape(op.getLoc(), op.getRhs(), type_with(op.getRhs(), matrix))});
  return true;
}

bool RowJoiner::join_along(Operation *op) {
  auto along = op->getAttrOfType<mlir::IntegerAttr>("dim");
  int64_t rank = rank_of(op);
  if (along && mlir::isa<ir::SoftmaxOp, ir::LogSoftmaxOp>(op) &&
      goes_along_rows(op->getOperand(0), along.getInt()))
    return keep(op, /*has_rows=*/true);
  if (!along || along.getInt() < rank || !join_alike(op))
    return false;
  made_->setAttr("dim", builder_.getI64IntegerAttr(along.getInt() - rank + 1));
  return true;
}

int64_t RowJoiner::rank_of(Operation *op) {
  int64_t rank = 0;
  for (Value value : llvm::concat<Value>(llvm::to_vector(op->getOperands()),
                                         llvm::to_vector(op->getResults())))
    rank = std::max(rank, joined_rank(dimsOf(value)));
  return rank;
}

bool RowJoiner::join_indexed(Operation *op) {
  Value table = op->getOperand(0), indices = op->getOperand(1);
  if (lies_behind(table))
    return place_of(dimsOf(indices)) == -1 && join_along(op);
  return op->getAttrOfType<mlir::IntegerAttr>("dim").getInt() == 0 &&
         place_of(dimsOf(table)) == -1 && join_alike(op);
}

bool RowJoiner::normalized_behind(ir::LayerNormOp norm) {
  Dims dims = dimsOf(norm.getInput());
  return static_cast<int64_t>(dims.size() - norm.getNormalizedRank()) >= joined_rank(dims);
}

bool RowJoiner::join_reduction(Operation *op) {
  auto along = op->getAttrOfType<mlir::DenseI64ArrayAttr>("dims");
  int64_t rank = joined_rank(dimsOf(op->getOperand(0))), in_front = 0;
  if (!along)
    return false;
  llvm::SmallVector<int64_t> dims;
  for (int64_t dim : along.asArrayRef())
    if (dim < rank)
      ++in_front;
    else
      dims.push_back(dim - rank + 1);
  if (in_front > 0)
    dims.insert(dims.begin(), 0);
  if (in_front > 0 && in_front < rank)
    return along.size() == 1 &&
           ((rank == 2 && reduce_apart(op, along[0])) ||
            (goes_along_rows(op->getOperand(0), along[0]) && keep(op, /*has_rows=*/true)));
  if (!join_alike(op))
    return false;
  made_->setAttr("dims", builder_.getDenseI64ArrayAttr(dims));
  return true;
}

bool RowJoiner::join(ir::ReshapeOp op) {
  Value input = rows(op.getInput());
  if (!input)
    return false;
  settle(op.getResult(), reshape(op.getLoc(), input, joined_type(op.getResult())));
  return true;
}

void RowJoiner::settle(Value result, Value value) {
  if (lies_behind(result))
    rows_[result] = value;
  else
    result.replaceAllUsesWith(value);
}

bool RowJoiner::join(ir::BroadcastOp op) {
  Value input = op.getInput();
  if (lies_behind(input)) {
    // Its dims are aligned with the result's at the end.
    return dimsOf(input).size() == dimsOf(op.getResult()).size() &&
           joined_rank(dimsOf(input)) == joined_rank(dimsOf(op.getResult())) && join_alike(op);
  }
  Dims from = dimsOf(input);
  int64_t behind = static_cast<int64_t>(dimsOf(op.getResult()).size()) -
                   joined_rank(dimsOf(op.getResult())),
          in_front = std::max<int64_t>(0, static_cast<int64_t>(from.size()) - behind);
  if (in_front > 0 && !from[in_front - 1].isStatic())
    return repeat_places(op);
  // The same for all rows.
  if (!llvm::all_of(llvm::ArrayRef<Dim>(from).take_front(in_front),
                    [](const Dim &dim) { return dim.isOne(); }))
    return repeat_texts(op, in_front);
  spread(op, reshape(op.getLoc(), input,
                     type_with(input, llvm::ArrayRef<Dim>(from).drop_front(in_front))));
  return true;
}

void RowJoiner::spread(ir::BroadcastOp op, Value value) {
  mlir::RankedTensorType type = joined_type(op.getResult());
  if (value.getType() != type)
    value = ir::BroadcastOp::create(builder_, op.getLoc(), type, value);
  made_ = value.getDefiningOp();
  rows_[op.getResult()] = value;
}

bool RowJoiner::takes_all(llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> steps,
                          Value whole, Value part) {
  Dims from = dimsOf(whole), to = dimsOf(part);
  int64_t rank = joined_rank(from);
  for (int64_t dim = 0; dim < rank; ++dim)
    if (starts[dim] != 0 || steps[dim] != 1 || from[dim] != to[dim])
      return false;
  return rank > 0 && joined_rank(to) == rank;
}

bool RowJoiner::join_part(Operation *op) {
  if (!join_alike(op))
    return false;
  int64_t rank = joined_rank(dimsOf(op->getOperand(0)));
  // Of all rows: how many there are stands in the limits later (symbolic_module.cpp).
  set_bounds(made_, op, [&](llvm::ArrayRef<int64_t> bounds) {
    llvm::SmallVector<int64_t> joined = {bounds.front()};
    llvm::append_range(joined, bounds.drop_front(rank));
    return joined;
  });
  return true;
}

bool RowJoiner::join(ir::SliceOp op) {
  return takes_all(op.getStarts(), op.getSteps(), op.getInput(), op.getResult())
             ? join_part(op)
             : choose_places(op);
}

bool RowJoiner::join(ir::InsertSliceOp op) {
  return takes_all(op.getStarts(), op.getSteps(), op.getBase(), op.getUpdate()) ? join_part(op)
                                                                                : write_places(op);
}

bool takes_joined_rows(mlir::func::FuncOp main) {
  mlir::Block &block = main.getBody().front();
  if (llvm::any_of(block.getArguments(), lies_behind))
    return true;
  bool are_made = false; // such values of no operands' elements
  for (Operation &op : block.without_terminator()) {
    if (llvm::none_of(op.getResults(), lies_behind))
      continue;
    ir::Kind kind = mlir::cast<ir::WeftOp>(op).kind();
    if (kind != ir::Kind::Creation && kind != ir::Kind::Random && !mlir::isa<ir::BroadcastOp>(op))
      return mlir::isa<ir::ReshapeOp>(op) || llvm::any_of(op.getOperands(), lies_behind);
    // Nothing else takes two sizes in one value apart.
    if (WideRows::has_two_sizes(dimsOf(op.getResult(0))))
      return true;
    are_made = true;
  }
  return are_made;
}

absl::Status join_rows(mlir::func::FuncOp main, std::vector<Operation *> &ops,
                       const llvm::DenseSet<Operation *> &varying, SizeOf size_of) {
  return RowJoiner(main, varying, size_of).run(ops);
}

} // namespace weft::recorder
