#include "frontend/compile/row_numbers.h"

#include "dialects/weft/ir/IndexBounds.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"

namespace weft::recorder {

using ir::broadcastTo;
using ir::Dim;
using ir::Dims;
using ir::Val;
using mlir::Value;

Val count_of(mlir::OpBuilder &builder, mlir::Location loc, llvm::ArrayRef<Dim> dims,
             SizeOf size_of) {
  Dim all = ir::productDim(dims);
  ir::SizeProduct product{all.size, {}};
  if (!all.isStatic())
    product = ir::productOf(all.symbol.getValue());
  Val result;
  auto multiply = [&](Value by) {
    Val factor(builder, loc, by);
    result = result ? result * factor : factor;
  };
  for (llvm::StringRef symbol : product.symbols) {
    Value size = size_of(symbol);
    if (!size)
      return Val();
    multiply(size);
  }
  if (result && product.coefficient == 1)
    return result;
  auto type = mlir::RankedTensorType::get({}, builder.getI64Type());
  auto number = mlir::DenseElementsAttr::get(type, llvm::ArrayRef<int64_t>(product.coefficient));
  multiply(ir::ConstantOp::create(builder, loc, number));
  return result;
}

Val choose(Value from, Val numbers, int64_t dim) {
  Val select = numbers.make<ir::IndexSelectOp>(from, numbers.value(), dim);
  select.value().getDefiningOp()->setAttr(ir::kInRangeAttr, numbers.builder().getUnitAttr());
  return select;
}

Val iota(mlir::OpBuilder &builder, mlir::Location loc, llvm::ArrayRef<Dim> dims, int64_t along) {
  auto type = ir::tensorOf(dims, builder.getI64Type());
  return Val(builder, loc, ir::IotaOp::create(builder, loc, type, along));
}

PlacesInside inside_of(Val place, Val count) {
  Val from_first = ir::compare("ge", place, place.constant(0)),
      to_last = ir::compare("lt", place, count);
  Val both = place.make<ir::AndOp>(from_first.value(), to_last.value()),
      last = place.make<ir::MinimumOp>(place.value(), (count - 1).value());
  return {both, ir::maximum(last, place.constant(0))};
}

RowNumbers::RowNumbers(mlir::OpBuilder &builder, mlir::Location loc, Dim texts, Dim places,
                       SizeOf size_of)
    : builder_(builder), loc_(loc), texts_(texts), places_(places),
      rows_(ir::productDim({places, texts})), size_of_(size_of),
      length_(count_of(builder, loc, places, size_of)) {}

Val RowNumbers::texts() {
  return iota(builder_, loc_, {rows_}, 0) / broadcastTo(length_, {rows_});
}

Val RowNumbers::places() {
  Val row = iota(builder_, loc_, {rows_}, 0), length = broadcastTo(length_, {rows_});
  return row - row / length * length;
}

Val RowNumbers::by_place() {
  Dims dims = {places_, Dim(texts_.size)};
  Val text = iota(builder_, loc_, dims, 1);
  if (!texts_.isStatic()) {
    Val count = count_of(builder_, loc_, texts_, size_of_);
    if (!count)
      return Val();
    text = text.make<ir::MinimumOp>(text.value(), broadcastTo(count - 1, dims).value());
  }
  return iota(builder_, loc_, dims, 0) + text * broadcastTo(length_, dims);
}

Val RowNumbers::part(int64_t first, int64_t step, Dim count) {
  RowNumbers part(builder_, loc_, texts_, count, size_of_);
  if (!part)
    return Val();
  Val text = part.texts(), place = part.places();
  return text * broadcastTo(length_, {part.rows_}) + place * double(step) + double(first);
}

PlacesInside RowNumbers::inside(int64_t first, Dim count) {
  Val in_each = count_of(builder_, loc_, count, size_of_);
  if (!in_each)
    return {};
  Val text = texts(), place = places() - double(first), each = broadcastTo(in_each, {rows_});
  PlacesInside part = inside_of(place, each);
  return {part.is_inside, text * each + part.place};
}

} // namespace weft::recorder
