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

Val RowNumbers::count(Dim dim, const SizeOf &size_of) {
  auto scalar = mlir::RankedTensorType::get({}, builder_.getI64Type());
  auto number = [&](int64_t value) {
    return Val(builder_, loc_,
               ir::ConstantOp::create(
                   builder_, loc_,
                   mlir::DenseElementsAttr::get(scalar, llvm::ArrayRef<int64_t>(value))));
  };
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

} // namespace weft::recorder
