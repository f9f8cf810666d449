#include "frontend/compile/row_numbers.h"

#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"

namespace weft::recorder {

using ir::Dim;
using ir::Val;
using mlir::Value;

RowNumbers::RowNumbers(mlir::OpBuilder &builder, mlir::Location loc, int64_t texts, Dim places,
                       const SizeOf &size_of)
    : builder_(builder), loc_(loc), texts_(texts), places_(places),
      rows_(ir::productDim({places, Dim(texts)})), length_(count(places, size_of)) {}

Val RowNumbers::number(int64_t value) {
  auto type = mlir::RankedTensorType::get({}, builder_.getI64Type());
  auto elements = mlir::DenseElementsAttr::get(type, llvm::ArrayRef<int64_t>(value));
  return Val(builder_, loc_, ir::ConstantOp::create(builder_, loc_, elements));
}

Val RowNumbers::count(Dim dim, const SizeOf &size_of) {
  if (dim.isStatic())
    return number(dim.size);
  ir::SizeProduct product = ir::productOf(dim.symbol.getValue());
  Val result;
  for (llvm::StringRef symbol : product.symbols) {
    Value size = size_of(symbol);
    if (!size)
      return Val();
    result = result ? result * Val(builder_, loc_, size) : Val(builder_, loc_, size);
  }
  return product.coefficient == 1 ? result : result * number(product.coefficient);
}

Val RowNumbers::numbers(llvm::ArrayRef<Dim> dims, int64_t along) {
  auto type = ir::tensorOf(dims, builder_.getI64Type());
  return Val(builder_, loc_, ir::IotaOp::create(builder_, loc_, type, along));
}

Val RowNumbers::all(Val scalar, llvm::ArrayRef<Dim> dims) {
  return ir::broadcastTo(scalar, dims);
}

Value RowNumbers::texts() {
  return (numbers({rows_}, 0) / all(length_, {rows_})).value();
}

Value RowNumbers::places() {
  Val row = numbers({rows_}, 0), length = all(length_, {rows_});
  return (row - row / length * length).value();
}

Value RowNumbers::by_place() {
  ir::Dims dims = {places_, Dim(texts_)};
  return (numbers(dims, 0) + numbers(dims, 1) * all(length_, dims)).value();
}

Value RowNumbers::part(int64_t first, int64_t step, Dim count, const SizeOf &size_of) {
  ir::Dims dims = {ir::productDim({count, Dim(texts_)})};
  Val in_each = this->count(count, size_of);
  if (!in_each)
    return nullptr;
  Val number = numbers(dims, 0), each = all(in_each, dims), text = number / each,
      place = number - text * each;
  return (text * all(length_, dims) + place * double(step) + double(first)).value();
}

RowNumbers::Inside RowNumbers::inside(int64_t first, Dim count, const SizeOf &size_of) {
  ir::Dims dims = {rows_};
  Val in_each = this->count(count, size_of);
  if (!in_each)
    return {};
  Val row = numbers(dims, 0), length = all(length_, dims), text = row / length,
      place = row - text * length - all(number(first), dims), zero = all(number(0), dims),
      each = all(in_each, dims), last = all(in_each - number(1), dims);
  Val is_inside = row.at(ir::AndOp::create(builder_, loc_, ir::compare("ge", place, zero).value(),
                                           ir::compare("lt", place, each).value())),
      near = ir::maximum(
          row.at(ir::MinimumOp::create(builder_, loc_, place.value(), last.value())), zero);
  return {is_inside.value(), (text * each + near).value()};
}

} // namespace weft::recorder
