// Ops over some texts or places of all rows, which are chosen by their numbers.
#include "frontend/compile/row_joiner.h"

#include "dialects/weft/ir/SmallestSize.h"
#include "frontend/compile/refusal.h"

namespace weft::recorder {

RowNumbers RowJoiner::numbers_of(mlir::Location loc, llvm::ArrayRef<Dim> dims) {
  int64_t rank = joined_rank(dims);
  return {builder_, loc, ir::productDim(dims.take_front(rank - 1)), dims[rank - 1], size_of_};
}

bool RowJoiner::goes_along_rows(Value input, int64_t along) {
  Dims dims = dimsOf(input);
  return place_of(dims) == along && llvm::all_of(llvm::drop_begin(dims, along + 1),
                                                 [](const Dim &dim) { return dim.isOne(); });
}

bool RowJoiner::adds_exactly(Operation *op) {
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
  return cast && typeOf(cast.getInput()).getElementType().isInteger(1) && elements <= kMostCounted;
}

bool RowJoiner::reduce_apart(Operation *op, int64_t along) {
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

Value RowJoiner::without_absent(Operation *op, Value chosen, const Dim &texts) {
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

void RowJoiner::spread_rows(ir::BroadcastOp op, int64_t rank, Val numbers) {
  spread(op, choose(flattened(op.getInput(), rank), numbers));
}

bool RowJoiner::repeat_places(ir::BroadcastOp op) {
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

bool RowJoiner::repeat_texts(ir::BroadcastOp op, int64_t in_front) {
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

bool RowJoiner::has_places(ir::SliceOp op, const Dim &dim, int64_t first, int64_t step,
                           const Dim &count) {
  if (!count.isStatic() || first + (count.size - 1) * step < ir::smallestSize(op, dim))
    return true;
  too_few_ = too_few_elements(op);
  return false;
}

bool RowJoiner::choose_places(ir::SliceOp op) {
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

bool RowJoiner::write_places(ir::InsertSliceOp op) {
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

} // namespace weft::recorder
