#include "frontend/compile/wide_rows.h"

#include "dialects/weft/ir/LongDims.h"
#include "frontend/compile/varying_dims.h"

namespace weft::recorder {

using ir::Dim;
using ir::Dims;
using ir::Val;
using mlir::Location;
using mlir::Operation;
using mlir::Value;

namespace {

llvm::ArrayRef<Dim> rows_of_dims(llvm::ArrayRef<Dim> dims) {
  return dims.drop_back();
}

Dims wide_dims(llvm::ArrayRef<Dim> dims) {
  return {ir::productDim(rows_of_dims(dims)), Dim(dims.back().size)};
}
Dims wide_dims(Value value) {
  return wide_dims(dimsOf(value));
}

} // namespace

bool WideRows::has_two_sizes(llvm::ArrayRef<Dim> dims) {
  return place_of(dims) == -2 && !dims.back().isStatic();
}

bool WideRows::takes(Operation *op) const {
  if (llvm::any_of(op->getOperands(), [&](Value each) { return contains(each); }))
    return true;
  if (op->getNumResults() != 1 || !has_two_sizes(dimsOf(op->getResult(0))))
    return false;
  auto has_size = [](Value value) {
    return ir::hasNamedDims(value.getType());
  };
  if (mlir::isa<ir::BroadcastOp>(op))
    return has_size(op->getOperand(0));
  if (auto slice = mlir::dyn_cast<ir::SliceOp>(op))
    return dimsOf(slice.getInput()).back().isStatic();
  return mlir::isa<ir::IotaOp>(op);
}

Operation *WideRows::widen(Operation *op) {
  Value made;
  if (auto iota = mlir::dyn_cast<ir::IotaOp>(op)) {
    made = iota_of(iota);
  } else if (auto broadcast = mlir::dyn_cast<ir::BroadcastOp>(op)) {
    made = spread(broadcast);
  } else if (auto slice = mlir::dyn_cast<ir::SliceOp>(op)) {
    made = columns_of(slice);
  } else if (auto reshape = mlir::dyn_cast<ir::ReshapeOp>(op)) {
    if (dimsOf(reshape.getInput()).back() == dimsOf(reshape.getResult()).back())
      made = reshaped(op->getLoc(), values_.at(reshape.getInput()), wide_dims(reshape.getResult()));
  } else if (mlir::cast<ir::WeftOp>(op).kind() == ir::Kind::Elementwise) {
    Operation *same = clone_on(builder_, op, [&](Value operand) { return of(operand); });
    for (size_t i = 0; same && i < same->getNumResults(); ++i) {
      Value result = op->getResult(i), wide = values_[result] = same->getResult(i);
      wide.setType(type_with(result, wide_dims(result)));
    }
    return same;
  }
  if (!made)
    return nullptr;
  values_[op->getResult(0)] = made;
  return made.getDefiningOp();
}

Value WideRows::of(Value value) {
  if (auto found = values_.find(value); found != values_.end())
    return found->second;
  Location loc = value.getLoc();
  Dims dims = dimsOf(value), wide = wide_dims(dims);
  mlir::RankedTensorType type = type_with(value, wide);
  Operation *op = value.getDefiningOp();
  if (auto constant = mlir::dyn_cast_if_present<ir::ConstantOp>(op))
    if (auto splat = mlir::dyn_cast<mlir::SplatElementsAttr>(constant.getValue()))
      return values_[value] =
                 ir::splat(builder_, loc, type,
                           mlir::cast<mlir::TypedAttr>(splat.getSplatValue<mlir::Attribute>()));
  if (auto broadcast = mlir::dyn_cast_if_present<ir::BroadcastOp>(op);
      broadcast && typeOf(broadcast.getInput()).getNumElements() == 1)
    return values_[value] = ir::BroadcastOp::create(builder_, loc, type,
                                                    reshaped(loc, broadcast.getInput(), {}));
  Value rows = rows_of_(value);
  Val length = count_of(builder_, loc, dims.back(), size_of_);
  if (!rows || !length)
    return nullptr;
  Val row = iota(builder_, loc, wide, 0), column = iota(builder_, loc, wide, 1);
  Val each = ir::broadcastTo(length, wide);
  Val there = column.make<ir::MinimumOp>(column.value(), (each - 1).value());
  return values_[value] = choose(reshaped(loc, rows, {ir::productDim(dims)}), row * each + there);
}

Value WideRows::dense(Value value) {
  Location loc = value.getLoc();
  Dims dims = dimsOf(value), flat = {ir::productDim(dims)};
  Value wide = values_.at(value);
  Val length = count_of(builder_, loc, dims.back(), size_of_);
  if (!length)
    return nullptr;
  // By floats, as a processor divides several of these at once: exact up to 2^51.
  mlir::Type f64 = builder_.getF64Type();
  Val number = length.make<ir::IotaOp>(ir::tensorOf(flat, f64), 0),
      each = ir::broadcastTo(ir::cast(length, f64), flat);
  Val row = ir::floor((number + 0.5) / each),
      place = number + row * (double(dims.back().size) - each);
  return choose(reshaped(loc, wide, {ir::productDim(dimsOf(wide))}),
                ir::cast(place, builder_.getI64Type()));
}

Value WideRows::apart(Location loc, Value value) {
  Dims dims = dimsOf(value);
  dims.back() = Dim(dims.back().size);
  return reshaped(loc, values_.at(value), dims);
}

Value WideRows::reshaped(Location loc, Value value, llvm::ArrayRef<Dim> dims) {
  auto type = type_with(value, dims);
  return value.getType() == type ? value : ir::ReshapeOp::create(builder_, loc, type, value);
}

Value WideRows::iota_of(ir::IotaOp op) {
  Dims dims = dimsOf(op.getResult());
  int64_t along = op.getDim(), last = static_cast<int64_t>(dims.size()) - 1;
  if (along != last && ir::longDims(rows_of_dims(dims)).size() != 1)
    return nullptr;
  auto type = type_with(op.getResult(), wide_dims(dims));
  bool is_of_rows = along != last && !dims[along].isOne();
  return ir::IotaOp::create(builder_, op.getLoc(), type, is_of_rows ? 0 : 1);
}

Val WideRows::numbers(Location loc, llvm::ArrayRef<Dim> from, llvm::ArrayRef<Dim> to) {
  Dims all = ir::longDims(to), some = ir::longDims(from);
  if (all.empty() || all.back().isStatic())
    return Val();
  RowNumbers rows(builder_, loc, ir::productDim(llvm::ArrayRef(all).drop_back()), all.back(),
                  size_of_);
  if (!rows)
    return Val();
  bool is_place = llvm::ArrayRef(some) == llvm::ArrayRef(all).take_back(1),
       is_text = llvm::ArrayRef(some) == llvm::ArrayRef(all).drop_back();
  // As many texts as places: where dims of size 1 stand tells which of them these are.
  if (is_place && is_text)
    for (auto [one, other] : llvm::zip_equal(from, to))
      if (!other.isOne())
        is_place = !one.isOne(), is_text = one.isOne();
  return is_place ? rows.places() : is_text ? rows.texts() : Val();
}

Value WideRows::spread(ir::BroadcastOp op) {
  Location loc = op.getLoc();
  Value input = op.getInput();
  Dims to = dimsOf(op.getResult()), from(to.size() - dimsOf(input).size(), Dim(1));
  llvm::append_range(from, dimsOf(input));
  llvm::ArrayRef<Dim> rows = rows_of_dims(from), all = rows_of_dims(to);
  Dims narrow = {ir::productDim(rows), from.back().isOne() ? Dim(1) : Dim(to.back().size)};
  Value value = from.back().isOne() ? rows_of_(input) : of(input);
  if (!value)
    return nullptr;
  value = reshaped(loc, value, narrow);
  Dims wide = wide_dims(to);
  if (narrow[0] != wide[0] && !narrow[0].isOne()) {
    Val chosen = numbers(loc, rows, all);
    if (!chosen)
      return nullptr;
    value = choose(value, chosen);
  }
  auto type = type_with(input, wide);
  return value.getType() == type ? value : ir::BroadcastOp::create(builder_, loc, type, value);
}

Value WideRows::columns_of(ir::SliceOp op) {
  Location loc = op.getLoc();
  Dims from = dimsOf(op.getInput()), to = dimsOf(op.getResult());
  bool begins = llvm::all_of(op.getStarts(), [](int64_t start) { return start == 0; }) &&
                llvm::all_of(op.getSteps(), [](int64_t step) { return step == 1; });
  Value rows = rows_of_(op.getInput());
  if (!begins || !rows)
    return nullptr;
  int64_t there = from.back().size, wanted = to.back().size;
  Value value = reshaped(loc, rows, {ir::productDim(rows_of_dims(from)), Dim(there)});
  if (rows_of_dims(from) != rows_of_dims(to)) {
    // As many of them as there are queries.
    Dims all = ir::longDims(rows_of_dims(from)), some = ir::longDims(rows_of_dims(to));
    if (all.size() != 1 || some.size() != 1)
      return nullptr;
    value = choose(value, iota(builder_, loc, some, 0));
  }
  if (wanted <= there) {
    Dim count = dimsOf(value)[0];
    int64_t all = count.isStatic() ? count.size : mlir::ShapedType::kDynamic;
    return ir::SliceOp::create(builder_, loc, value, llvm::ArrayRef<int64_t>{0, 0},
                               llvm::ArrayRef<int64_t>{all, wanted}, llvm::ArrayRef<int64_t>{1, 1});
  }
  // No size of the range goes beyond the table, but the largest one may.
  Val column = iota(builder_, loc, Dim(wanted), 0);
  Val last = column.make<ir::MinimumOp>(column.value(), column.constant(double(there - 1)).value());
  return choose(value, last, 1);
}

} // namespace weft::recorder
