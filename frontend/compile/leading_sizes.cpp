#include "frontend/compile/leading_sizes.h"

#include <numeric>
#include <optional>
#include <string>

#include "dialects/weft/ir/Attention.h"
#include "dialects/weft/ir/Weft.h"
#include "frontend/compile/refusal.h"
#include "frontend/compile/varying_dims.h"
#include "llvm/ADT/DenseMap.h"

namespace weft::recorder {
namespace {

using ir::Dim;
using ir::Dims;
using mlir::Operation;
using mlir::Value;

int64_t product(llvm::ArrayRef<Dim> dims) {
  return ir::productDim(dims).size;
}

Order in_order(size_t rank) {
  Order order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}
// With this dim in front.
Order in_front(int64_t place, size_t rank) {
  Order order = in_order(rank);
  if (place > 0)
    std::rotate(order.begin(), order.begin() + place, order.begin() + place + 1);
  return order;
}

template <typename Range> auto permuted(const Range &of, llvm::ArrayRef<int64_t> order) {
  llvm::SmallVector<std::decay_t<decltype(of[0])>, 4> result;
  for (int64_t from : order)
    result.push_back(of[from]);
  return result;
}
int64_t index_in(llvm::ArrayRef<int64_t> order, int64_t dim) {
  return llvm::find(order, dim) - order.begin();
}

class FrontMover {
public:
  FrontMover(mlir::func::FuncOp main, const llvm::DenseSet<Operation *> &varying)
      : main_(main), varying_(varying), builder_(main.getContext()) {}

  absl::Status run(std::vector<Operation *> &ops) {
    mlir::Block &block = main_.getBody().front();
    for (Value argument : block.getArguments())
      if (lies_behind(argument))
        return refuse(argument.use_empty() ? nullptr : *argument.user_begin(), argument);
    llvm::SmallVector<Operation *> replaced;
    for (Operation *&op : ops) {
      auto is_moved = [&](Value value) {
        return moved_.contains(value);
      };
      auto is_behind = [](Value value) {
        return lies_behind(value);
      };
      if (llvm::none_of(op->getOperands(), is_moved) && llvm::none_of(op->getResults(), is_behind))
        continue;
      builder_.setInsertionPoint(op);
      made_ = nullptr;
      if (varying_.contains(op) || !move(op)) {
        if (absl::Status why = why_no_lengths(op); !why.ok())
          return why;
        auto found = llvm::find_if(op->getOperands(), is_moved);
        return refuse(op, found != op->operand_end() ? Value(*found)
                                                     : *llvm::find_if(op->getResults(), is_behind));
      }
      replaced.push_back(op);
      op = made_;
    }
    for (Value result : block.getTerminator()->getOperands())
      if (moved_.contains(result))
        return refuse(result.getDefiningOp(), result, ", which is a result of the program");
    for (Operation *op : llvm::reverse(replaced))
      op->erase();
    return absl::OkStatus();
  }

private:
  // A value that lies otherwise now.
  struct Moved {
    Value value; // the dim that varies, then the others
    // Where dims became one, those of [6, n, 32] rows of [n.6, 32], `value` has the same rows in
    // the order of [n, 6, 32]: these are 6 and n.
    int64_t steps = 0;
    Dim size = 0;
  };

  absl::Status refuse(Operation *op, Value value, const std::string &what = "") const {
    std::string of = ir::spell(dimsOf(value)) + what, hint;
    if (is_rows(value)) {
      const Moved &rows = moved_.at(value);
      Dims dims = {rows.steps, rows.size};
      llvm::append_range(dims, llvm::drop_begin(dimsOf(value)));
      of = ir::spell(dims) + ", whose rows it takes together";
      hint = ", as batch_first does";
    }
    return cannot(op, (op ? name_of(op) + ": " : "") +
                          "a size that varies is not that of the leading dimension of " + of +
                          "; keep it first" + hint);
  }

  bool move(Operation *op) {
    if (auto transpose = mlir::dyn_cast<ir::TransposeOp>(op))
      return move(transpose);
    if (auto reshape = mlir::dyn_cast<ir::ReshapeOp>(op))
      return move(reshape);
    if (auto matmul = mlir::dyn_cast<ir::MatmulOp>(op))
      return move(matmul);
    if (llvm::any_of(op->getResults(), [](Value value) { return place_of(dimsOf(value)) == -2; }))
      return false;
    if (ir::isAttention(op))
      return move_attention(op);
    if (auto broadcast = mlir::dyn_cast<ir::BroadcastOp>(op))
      return move(broadcast);
    if (mlir::isa<ir::SliceOp, ir::InsertSliceOp>(op))
      return move_part(op);
    if (auto concat = mlir::dyn_cast<ir::ConcatOp>(op))
      return move_alike(concat, index_in(order_for(concat.getResult()), concat.getDim()));
    if (auto constant = mlir::dyn_cast<ir::ConstantOp>(op))
      return mlir::isa<mlir::SplatElementsAttr>(constant.getValue()) && move_alike(op);
    if (auto norm = mlir::dyn_cast<ir::LayerNormOp>(op))
      return move(norm);
    if (mlir::isa<ir::SoftmaxOp, ir::LogSoftmaxOp>(op)) {
      int64_t dim = op->getAttrOfType<mlir::IntegerAttr>("dim").getInt();
      return goes_alike(op->getOperand(0), {dim}) &&
             move_alike(op, index_in(order_for(op->getResult(0)), dim));
    }
    switch (mlir::cast<ir::WeftOp>(op).kind()) {
    case ir::Kind::Elementwise:
      return llvm::any_of(op->getOperands(), [&](Value each) { return is_rows(each); })
                 ? move_rows(op)
                 : move_alike(op);
    case ir::Kind::Reduction:
      return move_reduction(op);
    default:
      return false;
    }
  }

  bool is_rows(Value value) const {
    auto found = moved_.find(value);
    return found != moved_.end() && found->second.steps > 0;
  }

  // How a value's dims lie that has this place.
  static Order order_for(Value value) {
    return in_front(place_of(dimsOf(value)), dimsOf(value).size());
  }

  // The value with its dims in this order; null for rows.
  Value ordered(mlir::Location loc, Value value, llvm::ArrayRef<int64_t> order) {
    auto found = moved_.find(value);
    if (found == moved_.end())
      return permute(loc, value, order);
    if (found->second.steps > 0)
      return nullptr;
    Order lies = order_for(value), from;
    for (int64_t dim : order)
      from.push_back(index_in(lies, dim));
    return permute(loc, found->second.value, from);
  }

  Value permute(mlir::Location loc, Value value, llvm::ArrayRef<int64_t> order) {
    if (llvm::is_sorted(order))
      return value;
    Dims from = dimsOf(value);
    auto type = type_with(value, permuted(from, order));
    if (moves_ones(from, order))
      return ir::ReshapeOp::create(builder_, loc, type, value);
    return ir::TransposeOp::create(builder_, loc, type, value, order);
  }

  // `value` is the op's result with the dim that varies in front.
  void settle(Value result, Value value) {
    if (lies_behind(result)) {
      moved_[result] = {value};
      return;
    }
    if (value.getType() != result.getType())
      value = ir::ReshapeOp::create(builder_, result.getLoc(), result.getType(), value);
    result.replaceAllUsesWith(value);
  }

  // The op on what `of` makes of its operands; its results have the dim that varies in front.
  template <typename Of> bool again(Operation *op, const Of &of) {
    made_ = clone_on(builder_, op, of);
    if (!made_)
      return false;
    for (Value result : made_->getResults())
      result.setType(type_with(result, permuted(dimsOf(result), order_for(result))));
    return true;
  }
  void settle(Operation *op) {
    for (auto [result, made] : llvm::zip_equal(op->getResults(), made_->getResults()))
      settle(result, made);
  }

  // Operands and result have as many dims, with the one that varies at one place.
  bool move_alike(Operation *op, std::optional<int64_t> dim = {}) {
    Order order = order_for(op->getResult(0));
    auto moved = [&](Value operand) {
      return place_of(dimsOf(operand)) == order[0] ? ordered(op->getLoc(), operand, order)
                                                   : Value();
    };
    if (!again(op, moved))
      return false;
    if (dim)
      made_->setAttr("dim", builder_.getI64IntegerAttr(*dim));
    settle(op);
    return true;
  }

  bool move(ir::TransposeOp transpose) {
    Value result = transpose.getResult();
    Order order = lies_behind(result) ? order_for(result) : in_order(dimsOf(result).size());
    Value value = ordered(transpose.getLoc(), transpose.getInput(),
                          permuted(transpose.getPermutation(), order));
    if (!value || place_of(dimsOf(result)) == -2)
      return false;
    if (lies_behind(result))
      moved_[result] = {value};
    else
      result.replaceAllUsesWith(value);
    return true;
  }

  bool move(ir::BroadcastOp broadcast) {
    Value input = broadcast.getInput(), result = broadcast.getResult();
    Dims dims = dimsOf(result), from = dimsOf(input), aligned;
    Order order = order_for(result), of_input;
    int64_t fresh = static_cast<int64_t>(dims.size() - from.size()); // dims of the result alone
    for (int64_t dim : order) {
      aligned.push_back(dim < fresh ? Dim(1) : from[dim - fresh]);
      if (dim >= fresh)
        of_input.push_back(dim - fresh);
    }
    Value value = ordered(broadcast.getLoc(), input, of_input);
    if (!value)
      return false;
    auto type = type_with(input, aligned);
    if (type.getRank() != typeOf(value).getRank())
      value = ir::ReshapeOp::create(builder_, broadcast.getLoc(), type, value);
    again(broadcast, [&](Value) { return value; });
    settle(broadcast);
    return true;
  }

  bool move_part(Operation *op) {
    if (!move_alike(op))
      return false;
    set_bounds(made_, op, [&](llvm::ArrayRef<int64_t> bounds) {
      return permuted(bounds, order_for(op->getResult(0)));
    });
    return true;
  }

  bool move(ir::LayerNormOp norm) {
    Value input = norm.getInput();
    Order order = order_for(input);
    if (order[0] >= static_cast<int64_t>(order.size() - norm.getNormalizedRank()))
      return false;
    auto moved = [&](Value operand) {
      return operand == input ? ordered(norm.getLoc(), input, order) : operand;
    };
    if (!again(norm, moved))
      return false;
    settle(norm);
    return true;
  }

  // Its kernel takes the dims as they are, of values that lie in the new order: transposes say so
  // in front of it and behind it.
  bool move_attention(Operation *op) {
    if (!ir::variesInLength(op) || !ir::whyNoLengths(op).empty())
      return false;
    made_ = clone_on(builder_, op, [&](Value operand) {
      return moved_.contains(operand)
                 ? ordered(op->getLoc(), operand, in_order(dimsOf(operand).size()))
                 : operand;
    });
    if (!made_)
      return false;
    for (auto [result, made] : llvm::zip_equal(op->getResults(), made_->getResults()))
      settle(result,
             lies_behind(result) ? permute(op->getLoc(), made, order_for(result)) : Value(made));
    return true;
  }

  // Whether what goes along these dims does so in the same order where the dim that varies is in
  // front: it does along dims behind that one, and along a single other one by columns, as long as
  // there are columns in both.
  static bool goes_alike(Value input, llvm::ArrayRef<int64_t> along) {
    Dims dims = dimsOf(input);
    int64_t place = place_of(dims);
    if (place < 0 || llvm::is_contained(along, place))
      return false;
    return llvm::all_of(along, [&](int64_t dim) { return dim > place; }) ||
           (along.size() == 1 && product(llvm::ArrayRef<Dim>(dims).drop_front(place + 1)) > 1);
  }

  bool move_reduction(Operation *op) {
    Value input = op->getOperand(0);
    auto along = op->getAttrOfType<mlir::DenseI64ArrayAttr>("dims");
    Order order = order_for(input), dims;
    if (!along || is_rows(input) || !goes_alike(input, along.asArrayRef()))
      return false;
    for (int64_t dim : along.asArrayRef())
      dims.push_back(index_in(order, dim));
    llvm::sort(dims);
    again(op, [&](Value) { return ordered(op->getLoc(), input, order); });
    made_->setAttr("dims", builder_.getDenseI64ArrayAttr(dims));
    settle(op);
    return true;
  }

  // Dims in front of the one that varies become others, and so do those behind it.
  bool move(ir::ReshapeOp reshape) {
    mlir::Location loc = reshape.getLoc();
    Value input = reshape.getInput(), result = reshape.getResult();
    Dims from = dimsOf(input), to = dimsOf(result);
    int64_t place = place_of(from), new_place = place_of(to);
    if (place < 0 || new_place < 0)
      return false;
    auto make = [&](Value of, llvm::ArrayRef<Dim> dims) -> Value {
      auto type = type_with(input, dims);
      if (of.getType() == type)
        return of;
      made_ = ir::ReshapeOp::create(builder_, loc, type, of);
      return made_->getResult(0);
    };
    int64_t before = product(llvm::ArrayRef<Dim>(from).take_front(place)),
            new_before = product(llvm::ArrayRef<Dim>(to).take_front(new_place));
    if (is_rows(input)) {
      Moved rows = moved_.at(input);
      // To rows of another kind, or to what they were the rows of.
      if (new_place == 0 && to[0] == from[0])
        moved_[result] = {make(rows.value, to), rows.steps, rows.size};
      else if (to[new_place] == rows.size && new_before == rows.steps)
        moved_[result] = {make(rows.value, permuted(to, order_for(result)))};
      else
        return false;
      return true;
    }
    Value moved = ordered(loc, input, order_for(input));
    if (from[place] == to[new_place] && before == new_before) {
      settle(result, make(moved, permuted(to, order_for(result))));
      return true;
    }
    // All rows, one after another.
    if (before < 2 || new_place != 0 || to[0] != ir::productDim({from[place], Dim(before)}))
      return false;
    moved_[result] = {make(moved, to), before, from[place]};
    return true;
  }

  // A product by rows does not ask in which order they come.
  bool move(ir::MatmulOp matmul) {
    if (!is_rows(matmul.getLhs()) || matmul.getTransposeLhs() ||
        dimsOf(matmul.getResult()).size() != 2 || place_of(dimsOf(matmul.getRhs())) != -1)
      return false;
    Moved rows = moved_.at(matmul.getLhs());
    again(matmul, [&](Value operand) { return is_rows(operand) ? rows.value : operand; });
    moved_[matmul.getResult()] = {made_->getResult(0), rows.steps, rows.size};
    return true;
  }

  // Beside rows stands what is the same for all of them.
  bool move_rows(Operation *op) {
    Moved rows =
        moved_.at(*llvm::find_if(op->getOperands(), [&](Value each) { return is_rows(each); }));
    auto moved = [&](Value operand) {
      if (is_rows(operand)) {
        const Moved &each = moved_.at(operand);
        return each.steps == rows.steps && each.size == rows.size ? each.value : Value();
      }
      auto broadcast = operand.getDefiningOp<ir::BroadcastOp>();
      auto constant = operand.getDefiningOp<ir::ConstantOp>();
      bool is_one = constant && constant.getValue().isSplat();
      return is_one || (broadcast && place_of(dimsOf(broadcast.getInput())) == -1) ? operand
                                                                                   : Value();
    };
    if (!again(op, moved))
      return false;
    moved_[op->getResult(0)] = {made_->getResult(0), rows.steps, rows.size};
    return true;
  }

  mlir::func::FuncOp main_;
  const llvm::DenseSet<Operation *> &varying_;
  mlir::OpBuilder builder_;
  llvm::DenseMap<Value, Moved> moved_;
  Operation *made_ = nullptr; // what replaces the op at hand
};

} // namespace

absl::Status bring_to_front(mlir::func::FuncOp main, std::vector<Operation *> &ops,
                            const llvm::DenseSet<Operation *> &varying) {
  return FrontMover(main, varying).run(ops);
}

} // namespace weft::recorder
