#include "frontend/compile/joined_rows.h"

#include "dialects/weft/ir/Attention.h"
#include "dialects/weft/ir/LongDims.h"
#include "dialects/weft/ir/SmallestSize.h"
#include "dialects/weft/ir/Weft.h"
#include "frontend/compile/refusal.h"
#include "frontend/compile/varying_dims.h"
#include "frontend/compile/wide_rows.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "llvm/ADT/DenseMap.h"

namespace weft::recorder {
namespace {

using ir::Dim;
using ir::Dims;
using ir::Val;
using mlir::Operation;
using mlir::Value;

// With the first `rank` dims as one.
Dims flat(llvm::ArrayRef<Dim> dims, int64_t rank) {
  Dims result = {ir::productDim(dims.take_front(rank))};
  llvm::append_range(result, dims.drop_front(rank));
  return result;
}

// How many of the dims are one: all up to the last that varies. 0: they may stay as they are.
int64_t joined_rank(llvm::ArrayRef<Dim> dims) {
  if (!ir::variesBehind(dims))
    return 0;
  auto last = llvm::find_if(llvm::reverse(dims), [](const Dim &dim) { return !dim.isStatic(); });
  return last.base() - dims.begin();
}

mlir::RankedTensorType joined_type(Value value) {
  Dims dims = dimsOf(value);
  if (int64_t rank = joined_rank(dims))
    dims = flat(dims, rank);
  return type_with(value, dims);
}

class RowJoiner {
public:
  RowJoiner(mlir::func::FuncOp main, const llvm::DenseSet<Operation *> &varying, SizeOf size_of)
      : main_(main), varying_(varying), size_of_(size_of), builder_(main.getContext()),
        wide_(builder_, size_of, [this](Value value) { return rows(value); }) {}

  absl::Status run(std::vector<Operation *> &ops) {
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

private:
  absl::Status refuse(Operation *op) const {
    if (absl::Status why = why_no_lengths(op); !why.ok())
      return why;
    auto found = llvm::find_if(op->getOperands(), lies_behind);
    Value value =
        found != op->operand_end() ? Value(*found) : *llvm::find_if(op->getResults(), lies_behind);
    return cannot(op, name_of(op) +
                          ": a size that varies is not that of the leading dimension of " +
                          ir::spell(dimsOf(value)) +
                          ", whose rows it does not take one by one; keep it first");
  }

  bool join(Operation *op) {
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
    if (mlir::isa<ir::CrossEntropyOp, ir::DropoutOp>(op))
      return join_alike(op);
    if (mlir::isa<ir::IndexSelectOp, ir::IndexAddOp, ir::IndexPutOp>(op))
      return join_indexed(op);
    if (ir::isOwn(op) && op->hasAttr("dim"))
      return join_along(op);
    switch (mlir::cast<ir::WeftOp>(op).kind()) {
    case ir::Kind::Elementwise:
    case ir::Kind::Random:
      return join_alike(op);
    case ir::Kind::Reduction:
      return join_reduction(op);
    default:
      return false;
    }
  }

  Value reshape(mlir::Location loc, Value value, mlir::RankedTensorType type) {
    if (value.getType() == type)
      return value;
    made_ = ir::ReshapeOp::create(builder_, loc, type, value);
    return made_->getResult(0);
  }

  Value flattened(Value value, int64_t rank) {
    return reshape(value.getLoc(), value, type_with(value, flat(dimsOf(value), rank)));
  }

  // The value's rows, or the value itself where it may stay; null where they do not lie one after
  // another.
  Value rows(Value value) {
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

  // The value with the dims that it was recorded with.
  Value apart(mlir::Location loc, Value value) {
    if (auto found = kept_.find(value); found != kept_.end())
      return found->second.value;
    if (auto found = turned_.find(value); found != turned_.end())
      return ir::TransposeOp::create(builder_, loc, typeOf(value), apart(loc, found->second.value),
                                     found->second.order);
    auto found = rows_.find(value);
    return found == rows_.end() ? value : reshape(loc, found->second, typeOf(value));
  }

  // An op that was not recorded, of recorded values.
  bool join_new(Operation *op) {
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

  // The op on rows: of its operands, and of other values.
  bool join_alike(Operation *op) {
    return again(op, [&](Value operand) { return rows(operand); });
  }

  bool again(Operation *op, llvm::function_ref<Value(Value)> of) {
    made_ = clone_on(builder_, op, of);
    if (!made_)
      return false;
    for (auto [result, made] : llvm::zip_equal(op->getResults(), made_->getResults())) {
      made.setType(joined_type(result));
      settle(result, made);
    }
    return true;
  }

  // The rows of all texts by one matrix.
  bool multiply(ir::MatmulOp op) {
    Dims lhs = dimsOf(op.getLhs()), rhs = dimsOf(op.getRhs());
    llvm::ArrayRef<Dim> matrix = llvm::ArrayRef(rhs).take_back(2);
    if (op.getTransposeLhs() || joined_rank(lhs) + 1 != static_cast<int64_t>(lhs.size()) ||
        place_of(rhs) != -1 || !ir::productDim(llvm::ArrayRef(rhs).drop_back(2)).isOne())
      return false;
    return again(op, [&](Value operand) {
      return operand == op.getLhs() ? rows(operand)
                                    : reshape(op.getLoc(), operand, type_with(operand, matrix));
    });
  }

  // One whose attribute says along which dim it goes, which lies behind the rows.
  bool join_along(Operation *op) {
    int64_t along = op->getAttrOfType<mlir::IntegerAttr>("dim").getInt(), rank = rank_of(op);
    if (mlir::isa<ir::SoftmaxOp, ir::LogSoftmaxOp>(op) && goes_along_rows(op->getOperand(0), along))
      return keep(op, /*has_rows=*/true);
    if (along < rank || !join_alike(op))
      return false;
    made_->setAttr("dim", builder_.getI64IntegerAttr(along - rank + 1));
    return true;
  }

  // How many dims of its values become one.
  static int64_t rank_of(Operation *op) {
    int64_t rank = 0;
    for (Value value :
         llvm::concat<Value>(llvm::to_vector(op->getOperands()), llvm::to_vector(op->getResults())))
      rank = std::max(rank, joined_rank(dimsOf(value)));
    return rank;
  }

  // Rows of a table, one for each index; or elements of each row.
  bool join_indexed(Operation *op) {
    Value table = op->getOperand(0), indices = op->getOperand(1);
    if (lies_behind(table))
      return place_of(dimsOf(indices)) == -1 && join_along(op);
    return op->getAttrOfType<mlir::IntegerAttr>("dim").getInt() == 0 &&
           place_of(dimsOf(table)) == -1 && join_alike(op);
  }

  static bool normalized_behind(ir::LayerNormOp norm) {
    Dims dims = dimsOf(norm.getInput());
    return static_cast<int64_t>(dims.size() - norm.getNormalizedRank()) >= joined_rank(dims);
  }

  // Over dims behind the rows, and over all rows or none.
  bool join_reduction(Operation *op) {
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

  bool join(ir::ReshapeOp op) {
    Value input = rows(op.getInput());
    if (!input)
      return false;
    settle(op.getResult(), reshape(op.getLoc(), input, joined_type(op.getResult())));
    return true;
  }

  // The result's rows are `value`, or the result is.
  void settle(Value result, Value value) {
    if (lies_behind(result))
      rows_[result] = value;
    else
      result.replaceAllUsesWith(value);
  }

  bool join(ir::BroadcastOp op) {
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

  // The op's rows are `value`, or broadcast from it.
  void spread(ir::BroadcastOp op, Value value) {
    mlir::RankedTensorType type = joined_type(op.getResult());
    if (value.getType() != type)
      value = ir::BroadcastOp::create(builder_, op.getLoc(), type, value);
    made_ = value.getDefiningOp();
    rows_[op.getResult()] = value;
  }

  // All rows, and a part of each.
  static bool takes_all(llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> steps, Value whole,
                        Value part) {
    Dims from = dimsOf(whole), to = dimsOf(part);
    int64_t rank = joined_rank(from);
    for (int64_t dim = 0; dim < rank; ++dim)
      if (starts[dim] != 0 || steps[dim] != 1 || from[dim] != to[dim])
        return false;
    return rank > 0 && joined_rank(to) == rank;
  }

  // Such a part, of what the op's first operand is.
  bool join_part(Operation *op) {
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

  bool join(ir::SliceOp op) {
    return takes_all(op.getStarts(), op.getSteps(), op.getInput(), op.getResult())
               ? join_part(op)
               : choose_places(op);
  }

  bool join(ir::InsertSliceOp op) {
    return takes_all(op.getStarts(), op.getSteps(), op.getBase(), op.getUpdate())
               ? join_part(op)
               : write_places(op);
  }

  //===-- Dims that are turned, as heads are for attention ------------------------------------===//

  // An op of values whose dims were turned, as heads are for attention: the same on what they were
  // turned from, turned behind it. What attention alone reads stays as it is.
  bool join_turned(Operation *op, const Order &order) {
    if (mlir::isa<ir::ReshapeOp, ir::BroadcastOp>(op))
      return keep(op, /*has_rows=*/false);
    auto weft = mlir::cast<ir::WeftOp>(op);
    bool is_alike = weft.kind() == ir::Kind::Elementwise ||
                    mlir::isa<ir::SliceOp, ir::InsertSliceOp, ir::ConcatOp, ir::SoftmaxOp>(op);
    if (!is_alike || op->getNumResults() != 1)
      return false;
    Operation *same =
        clone_on(builder_, op, [&](Value operand) { return turned_back(operand, order); });
    if (!same)
      return false;
    same->getResult(0).setType(back_type(op->getResult(0), order));
    if (auto dim = op->getAttrOfType<mlir::IntegerAttr>("dim"))
      same->setAttr("dim", builder_.getI64IntegerAttr(order[dim.getInt()]));
    set_bounds(same, op, [&](llvm::ArrayRef<int64_t> bounds) {
      return mlir::applyPermutation(bounds, mlir::invertPermutationVector(order));
    });
    return join_new(same) && (turned_[op->getResult(0)] = {same->getResult(0), order}, true);
  }

  static mlir::RankedTensorType back_type(Value value, const Order &order) {
    Dims dims = dimsOf(value);
    mlir::applyPermutationToVector(dims, mlir::invertPermutationVector(order));
    return type_with(value, dims);
  }

  // What the value was turned from by this order; what is one number, or a row for many, in that
  // order. Null for others.
  Value turned_back(Value value, const Order &order) {
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

  // Dims behind the rows change places; or those of attention's heads do, which its kernel sees to.
  bool join(ir::TransposeOp op) {
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

  // What attention gives is turned as its queries are: its kernel writes it as they lie.
  bool attend(Operation *op) {
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

  bool is_kept(Value value) const {
    auto found = kept_.find(value);
    return found != kept_.end() && !found->second.has_rows;
  }

  // What a kernel of attention takes with the dims as they are. has_rows: the result's lie one
  // after another.
  bool keep(Operation *op, bool has_rows) {
    made_ = clone_on(builder_, op, [&](Value operand) {
      return wide_.contains(operand) ? wide_.apart(op->getLoc(), operand)
                                     : apart(op->getLoc(), operand);
    });
    for (auto [result, made] : llvm::zip_equal(op->getResults(), made_->getResults()))
      if (lies_behind(result))
        kept_[result] = {made, has_rows};
      else
        result.replaceAllUsesWith(made);
    return true;
  }

  //===-- Places and texts, whose rows are chosen by their numbers ----------------------------===//

  // Of rows of dims [4, n, ...]; none where n is no argument.
  RowNumbers numbers_of(mlir::Location loc, llvm::ArrayRef<Dim> dims) {
    int64_t rank = joined_rank(dims);
    return {builder_, loc, ir::productDim(dims.take_front(rank - 1)), dims[rank - 1], size_of_};
  }

  // Whether the dim is that of rows whose length varies, [4, n], and the only one of more than one
  // element behind those that do not.
  static bool goes_along_rows(Value input, int64_t along) {
    Dims dims = dimsOf(input);
    return place_of(dims) == along && llvm::all_of(llvm::drop_begin(dims, along + 1),
                                                   [](const Dim &dim) { return dim.isOne(); });
  }

  // Whether the order in which elements are added up shows in no bit: of integers, and of what is 0
  // or 1 for as many as a float counts.
  static bool adds_exactly(Operation *op) {
    if (!mlir::isa<ir::ReduceSumOp>(op))
      return false;
    Value value = op->getOperand(0);
    if (typeOf(value).getElementType().isInteger())
      return true;
    constexpr int64_t kMostCounted = int64_t{1} << 24; // of float32, which 16 bits are added up in
    int64_t elements = typeOf(value).getNumElements();
    while (mlir::isa_and_present<ir::ReshapeOp, ir::BroadcastOp>(value.getDefiningOp()))
      value = value.getDefiningOp()->getOperand(0);
    auto cast = value.getDefiningOp<ir::CastOp>();
    return cast && typeOf(cast.getInput()).getElementType().isInteger(1) &&
           elements <= kMostCounted;
  }

  // Over all texts or all places of [4, n, 64], whose columns are added up one by one either way.
  bool reduce_apart(Operation *op, int64_t along) {
    Value input = op->getOperand(0), from = rows(input);
    Dims dims = dimsOf(input);
    bool has_columns = !ir::productDim(llvm::ArrayRef(dims).drop_front(2)).isOne();
    if (!from || op->getNumOperands() != 1 || (!has_columns && !adds_exactly(op)))
      return false;
    mlir::Location loc = op->getLoc();
    auto numbers = numbers_of(loc, dims);
    Val by_place = numbers ? numbers.by_place() : Val();
    if (!by_place)
      return false;
    Value chosen = choose(from, by_place);
    if (along == 0 && !dims[0].isStatic() && !(chosen = without_absent(op, chosen, dims[0])))
      return false;
    made_ = builder_.clone(*op);
    made_->setOperands(chosen);
    made_->setAttr("dims", builder_.getDenseI64ArrayAttr(1 - along));
    if (along == 1 && !dims[0].isStatic()) {
      Dims all = dimsOf(made_->getResult(0));
      all[0] = Dim(dims[0].size);
      made_->getResult(0).setType(type_with(op->getResult(0), all));
      made_ = choose(made_->getResult(0), iota(builder_, loc, dims[0], 0)).value().getDefiningOp();
    }
    op->getResult(0).replaceAllUsesWith(made_->getResult(0));
    return true;
  }

  // Columns of by_place() behind the last text's as what changes nothing that the op gives; null
  // where there is no such.
  Value without_absent(Operation *op, Value chosen, const Dim &texts) {
    if (mlir::isa<ir::ReduceMaxOp, ir::ReduceMinOp>(op))
      return chosen; // the last one again
    Val count = count_of(builder_, op->getLoc(), texts, size_of_);
    if (!mlir::isa<ir::ReduceSumOp>(op) || !count)
      return nullptr;
    Val x(builder_, op->getLoc(), chosen);
    Dims dims = dimsOf(chosen);
    Val is_text =
        ir::compare("lt", iota(builder_, op->getLoc(), dims, 1), ir::broadcastTo(count, dims));
    // -0 changes no sum, whatever it starts from.
    return ir::select(is_text, x, x.constant(-0.0));
  }

  // The input's rows, which are its first `rank` dims, chosen by these numbers.
  void spread_rows(ir::BroadcastOp op, int64_t rank, Val numbers) {
    spread(op, choose(flattened(op.getInput(), rank), numbers));
  }

  // A row for each place: the same in all texts.
  bool repeat_places(ir::BroadcastOp op) {
    Dims to = dimsOf(op.getResult()), from = dimsOf(op.getInput());
    int64_t rank = joined_rank(to), place = place_of(from);
    if (place < 0 || place + static_cast<int64_t>(to.size() - from.size()) != rank - 1 ||
        from[place] != to[rank - 1])
      return false;
    auto numbers = numbers_of(op.getLoc(), to);
    if (numbers)
      spread_rows(op, place + 1, numbers.places());
    return static_cast<bool>(numbers);
  }

  // A row for each text: the same at all places. in_front: dims of the input that are rows.
  bool repeat_texts(ir::BroadcastOp op, int64_t in_front) {
    Dims to = dimsOf(op.getResult()), from = dimsOf(op.getInput());
    int64_t rank = joined_rank(to), fresh = rank - in_front;
    if (in_front == 0 || !from[in_front - 1].isOne())
      return false;
    for (int64_t dim = 0; dim < rank - 1; ++dim)
      if ((dim < fresh ? Dim(1) : from[dim - fresh]) != to[dim])
        return false;
    auto numbers = numbers_of(op.getLoc(), to);
    if (numbers)
      spread_rows(op, in_front, numbers.texts());
    return static_cast<bool>(numbers);
  }

  // Whether these places are there at each size of the range. Of a count that varies they are: it
  // was recorded with the size.
  bool has_places(ir::SliceOp op, const Dim &dim, int64_t first, int64_t step, const Dim &count) {
    if (!count.isStatic() || first + (count.size - 1) * step < ir::smallestSize(op, dim))
      return true;
    too_few_ = too_few_elements(op);
    return false;
  }

  // Some places of all texts.
  bool choose_places(ir::SliceOp op) {
    Value from = rows(op.getInput());
    Dims dims = dimsOf(op.getInput()), to = dimsOf(op.getResult());
    int64_t at = joined_rank(dims) - 1;
    if (!from || at < 0 || op.getSteps()[at] < 0)
      return false;
    for (int64_t dim = 0; dim < static_cast<int64_t>(dims.size()); ++dim)
      if (dim != at &&
          (op.getStarts()[dim] != 0 || op.getSteps()[dim] != 1 || dims[dim] != to[dim]))
        return false;
    if (!has_places(op, dims[at], op.getStarts()[at], op.getSteps()[at], to[at]))
      return false;
    auto numbers = numbers_of(op.getLoc(), dims);
    Val chosen = numbers ? numbers.part(op.getStarts()[at], op.getSteps()[at], to[at]) : Val();
    if (!chosen)
      return false;
    Value value = choose(from, chosen);
    made_ = value.getDefiningOp();
    settle(op.getResult(), reshape(op.getLoc(), value, joined_type(op.getResult())));
    return true;
  }

  // Some places of all texts, as choose_places: what is written there or what was there before.
  bool write_places(ir::InsertSliceOp op) {
    Dims dims = dimsOf(op.getBase()), part = dimsOf(op.getUpdate());
    int64_t at = joined_rank(dims) - 1;
    if (at < 0)
      return false;
    for (int64_t dim = 0; dim < static_cast<int64_t>(dims.size()); ++dim)
      if (op.getSteps()[dim] != 1 ||
          (dim != at && (op.getStarts()[dim] != 0 || dims[dim] != part[dim])))
        return false;
    Value base = rows(op.getBase()), update = rows(op.getUpdate());
    auto numbers = numbers_of(op.getLoc(), dims);
    PlacesInside inside = numbers ? numbers.inside(op.getStarts()[at], part[at]) : PlacesInside();
    if (!base || !update || !inside.place)
      return false;
    if (!lies_behind(op.getUpdate()))
      update = flattened(update, at + 1);
    Dims joined_dims = dimsOf(base), ones(joined_dims.size(), Dim(1));
    ones[0] = joined_dims[0];
    Val written = ir::select(ir::broadcastTo(ir::reshapeTo(inside.is_inside, ones), joined_dims),
                             choose(update, inside.place), inside.place.at(base));
    made_ = written.value().getDefiningOp();
    rows_[op.getResult()] = written;
    return true;
  }

  mlir::func::FuncOp main_;
  const llvm::DenseSet<Operation *> &varying_;
  SizeOf size_of_;
  mlir::OpBuilder builder_;
  WideRows wide_;
  llvm::DenseMap<Value, Value> rows_;
  // Values that attention takes or gives, with the dims that they were recorded with.
  struct Kept {
    Value value;
    bool has_rows; // one after another
  };
  llvm::DenseMap<Value, Kept> kept_;
  // Values that are a transpose of another one, dim i of whose is dim order[i] there.
  struct Turned {
    Value value; // as recorded
    Order order;
  };
  llvm::DenseMap<Value, Turned> turned_;
  llvm::SmallVector<Operation *> replaced_;
  Operation *made_ = nullptr; // what replaces the op at hand
  absl::Status too_few_;      // of a part that smaller sizes have not
};

} // namespace

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
