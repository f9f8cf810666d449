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

Value choose(mlir::OpBuilder &builder, mlir::Location loc, Value from, Value numbers, int64_t dim) {
  auto select = ir::IndexSelectOp::create(builder, loc, from, numbers, dim);
  select->setAttr(ir::kInRangeAttr, builder.getUnitAttr());
  return select;
}

RowNumbers::RowNumbers(mlir::OpBuilder &builder, mlir::Location loc, int64_t texts, Dim places,
                       SizeOf size_of)
    : builder_(builder), loc_(loc), texts_(texts), places_(places),
      rows_(ir::productDim({places, Dim(texts)})), size_of_(size_of),
      length_(count_of(builder, loc, places, size_of)) {}

Val RowNumbers::numbers(llvm::ArrayRef<Dim> dims, int64_t along) {
  auto type = ir::tensorOf(dims, builder_.getI64Type());
  return Val(builder_, loc_, ir::IotaOp::create(builder_, loc_, type, along));
}

Value RowNumbers::texts() {
  return (numbers({rows_}, 0) / broadcastTo(length_, {rows_})).value();
}

Value RowNumbers::places() {
  Val row = numbers({rows_}, 0), length = broadcastTo(length_, {rows_});
  return (row - row / length * length).value();
}

Value RowNumbers::by_place() {
  Dims dims = {places_, Dim(texts_)};
  return (numbers(dims, 0) + numbers(dims, 1) * broadcastTo(length_, dims)).value();
}

Value RowNumbers::part(int64_t first, int64_t step, Dim count) {
  RowNumbers part(builder_, loc_, texts_, count, size_of_);
  if (!part)
    return nullptr;
  Val text(builder_, loc_, part.texts()), place(builder_, loc_, part.places());
  return (text * broadcastTo(length_, {part.rows_}) + place * double(step) + double(first)).value();
}

RowNumbers::Inside RowNumbers::inside(int64_t first, Dim count) {
  Val in_each = count_of(builder_, loc_, count, size_of_);
  if (!in_each)
    return {};
  Val text(builder_, loc_, texts()), place = text.at(places()) - double(first),
      each = broadcastTo(in_each, {rows_});
  Val from_first = ir::compare("ge", place, place.constant(0)),
      is_inside = place.at(ir::AndOp::create(builder_, loc_, from_first.value(),
                                             ir::compare("lt", place, each).value())),
      last = place.at(ir::MinimumOp::create(builder_, loc_, place.value(), (each - 1).value()));
  return {is_inside.value(), (text * each + ir::maximum(last, place.constant(0))).value()};
}

} // namespace weft::recorder
