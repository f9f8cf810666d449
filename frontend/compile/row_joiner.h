// What joins the rows of a function's values (joined_rows.h), op by op.
#pragma once

#include "dialects/weft/ir/Weft.h"
#include "frontend/compile/joined_rows.h"
#include "frontend/compile/varying_dims.h"
#include "frontend/compile/wide_rows.h"
#include "llvm/ADT/DenseMap.h"

namespace weft::recorder {

using ir::Dim;
using ir::Dims;
using ir::Val;
using mlir::Operation;
using mlir::Value;

// With the first `rank` dims as one.
inline Dims flat(llvm::ArrayRef<Dim> dims, int64_t rank) {
  Dims result = {ir::productDim(dims.take_front(rank))};
  llvm::append_range(result, dims.drop_front(rank));
  return result;
}

// How many of the dims are one: all up to the last that varies. 0: they may stay as they are.
inline int64_t joined_rank(llvm::ArrayRef<Dim> dims) {
  if (!ir::variesBehind(dims))
    return 0;
  auto last = llvm::find_if(llvm::reverse(dims), [](const Dim &dim) { return !dim.isStatic(); });
  return last.base() - dims.begin();
}

inline mlir::RankedTensorType joined_type(Value value) {
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
  absl::Status run(std::vector<Operation *> &ops);

private:
  absl::Status refuse(Operation *op) const;
  bool join(Operation *op);
  Value reshape(mlir::Location loc, Value value, mlir::RankedTensorType type);
  Value flattened(Value value, int64_t rank);
  // The value's rows, or the value itself where it may stay; null where they do not lie one after
  // another.
  Value rows(Value value);
  // The value with the dims that it was recorded with.
  Value apart(mlir::Location loc, Value value);
  // An op that was not recorded, of recorded values.
  bool join_new(Operation *op);
  // The op on rows: of its operands, and of other values.
  bool join_alike(Operation *op);
  void again(Operation *op, mlir::ValueRange operands);
  // The rows of all texts by one matrix.
  bool multiply(ir::MatmulOp op);
  // One whose attribute says along which dim it goes, which lies behind the rows.
  bool join_along(Operation *op);
  // How many dims of its values become one.
  static int64_t rank_of(Operation *op);
  // Rows of a table, one for each index; or elements of each row.
  bool join_indexed(Operation *op);
  static bool normalized_behind(ir::LayerNormOp norm);
  // Over dims behind the rows, and over all rows or none.
  bool join_reduction(Operation *op);
  bool join(ir::ReshapeOp op);
  // The result's rows are `value`, or the result is.
  void settle(Value result, Value value);
  bool join(ir::BroadcastOp op);
  // The op's rows are `value`, or broadcast from it.
  void spread(ir::BroadcastOp op, Value value);
  // All rows, and a part of each.
  static bool takes_all(llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> steps, Value whole,
                        Value part);
  // Such a part, of what the op's first operand is.
  bool join_part(Operation *op);
  bool join(ir::SliceOp op);
  bool join(ir::InsertSliceOp op);

  // Dims that are turned, as heads are for attention (turned_rows.cpp).

  // An op of values whose dims were turned, as heads are for attention: the same on what they were
  // turned from, turned behind it. What attention alone reads stays as it is.
  bool join_turned(Operation *op, const Order &order);
  static mlir::RankedTensorType back_type(Value value, const Order &order);
  // What the value was turned from by this order; what is one number, or a row for many, in that
  // order. Null for others.
  Value turned_back(Value value, const Order &order);
  // Dims behind the rows change places; or those of attention's heads do, which its kernel sees to.
  bool join(ir::TransposeOp op);
  // What attention gives is turned as its queries are: its kernel writes it as they lie.
  bool attend(Operation *op);
  bool is_kept(Value value) const;
  // What a kernel of attention takes with the dims as they are. has_rows: the result's lie one
  // after another.
  bool keep(Operation *op, bool has_rows);

  // Places and texts, whose rows are chosen by their numbers (chosen_rows.cpp).

  // Of rows of dims [4, n, ...]; none where n is no argument.
  RowNumbers numbers_of(mlir::Location loc, llvm::ArrayRef<Dim> dims);
  // Whether the dim is that of rows whose length varies, [4, n], and the only one of more than one
  // element behind those that do not.
  static bool goes_along_rows(Value input, int64_t along);
  // Whether the order in which elements are added up shows in no bit: of integers, and of what is 0
  // or 1 for as many as a float counts.
  static bool adds_exactly(Operation *op);
  // Over all texts or all places of [4, n, 64], whose columns are added up one by one either way.
  bool reduce_apart(Operation *op, int64_t along);
  // Columns of by_place() behind the last text's as what changes nothing that the op gives; null
  // where there is no such.
  Value without_absent(Operation *op, Value chosen, const Dim &texts);
  // The input's rows, which are its first `rank` dims, chosen by these numbers.
  void spread_rows(ir::BroadcastOp op, int64_t rank, Val numbers);
  // A row for each place: the same in all texts.
  bool repeat_places(ir::BroadcastOp op);
  // A row for each text: the same at all places. in_front: dims of the input that are rows.
  bool repeat_texts(ir::BroadcastOp op, int64_t in_front);
  // Whether these places are there at each size of the range. Of a count that varies they are: it
  // was recorded with the size.
  bool has_places(ir::SliceOp op, const Dim &dim, int64_t first, int64_t step, const Dim &count);
  // Some places of all texts.
  bool choose_places(ir::SliceOp op);
  // Some places of all texts, as choose_places: what is written there or what was there before.
  bool write_places(ir::InsertSliceOp op);

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

} // namespace weft::recorder
