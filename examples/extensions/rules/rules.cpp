// The rules that mine.td declares as InFile.
#include "dialects/weft/reference/Evaluation.h"
#include "dialects/weft/statements/StatementRules.h"
#include "mine.h"

using namespace weft::ir;
using mlir::RankedTensorType, mlir::success;

// mine.mirror: (a n-1-b) -> (a b). A program serves many sizes of the first dim where that is a;
// where it is b, one size, as n is a number of the statement.
mlir::LogicalResult mine::MirrorOp::verify() {
  if (mlir::cast<RankedTensorType>(getType()).getRank() >= 1)
    return success();
  return emitOpError("mirrors rows: input must have a dim, not ") << spell(getType());
}
std::optional<IndexStatement> mine::MirrorOp::statement() {
  auto type = mlir::cast<RankedTensorType>(getType());
  IndexStatement statement;
  Positions at = statement.addAll(type); // a dim for each of the result's
  statement.results = {at};
  int32_t last = static_cast<int32_t>(type.getRank()) - 1;
  at[last] = Position({{last, -1}}, type.getDimSize(last) - 1); // -1 * dim + (n - 1)
  statement.operands = {at};
  return statement;
}
mlir::LogicalResult mine::MirrorOp::evaluate(EvalContext &ctx) {
  const HostTensor &x = ctx.operand(0);
  HostTensor &y = ctx.result();
  int64_t n = x.shape.back();
  for (int64_t i = 0; i < x.size(); ++i) {
    int64_t from = i - i % n + (n - 1 - i % n);
    weft::is_floating(x.dtype) ? y.set(i, x.getDouble(from)) : y.setInt(i, x.getInt(from));
  }
  return success();
}
mlir::LogicalResult mine::MirrorOp::differentiate(GradContext &ctx) {
  // An op of this dialect in a derivative is made as MLIR makes ops.
  Val g = ctx.g();
  ctx.grad(0, ctx.make<MirrorOp>(g.type(), g.value()));
  return success();
}

// mine.row_norm: (a b) -> (a), b reduced.
mlir::LogicalResult mine::RowNormOp::inferReturnTypes(mlir::MLIRContext *,
                                                      std::optional<mlir::Location> loc,
                                                      Adaptor operands,
                                                      llvm::SmallVectorImpl<mlir::Type> &results) {
  auto type = mlir::cast<RankedTensorType>(operands.getInput().getType());
  if (type.getRank() == 0)
    return mlir::emitOptionalError(loc, "mine.row_norm: input must have a dim, not ", spell(type));
  results.push_back(tensorOf(llvm::ArrayRef(dimsOf(type)).drop_back(), type.getElementType()));
  return success();
}
std::optional<IndexStatement> mine::RowNormOp::statement() {
  IndexStatement statement;
  Positions at = statement.addAll(getType());
  statement.results = {at};
  mlir::Type input = getInput().getType();
  int64_t last = static_cast<int64_t>(at.size());
  at.push_back(statement.add(letterOf(at.size()), sizeOf(input, last), Purpose::Reduced));
  statement.fold = Fold::Other; // norms of parts do not add up to the norm of the whole
  statement.operands = {at};
  return statement;
}
mlir::LogicalResult mine::RowNormOp::evaluate(EvalContext &ctx) {
  const HostTensor &x = ctx.operand(0);
  int64_t n = x.shape.back();
  for (int64_t row = 0; row < ctx.result().size(); ++row) {
    double total = getEps().convertToDouble();
    for (int64_t i = row * n; i < (row + 1) * n; ++i)
      total += x.getDouble(i) * x.getDouble(i);
    ctx.result().set(row, std::sqrt(total));
  }
  return success();
}
mlir::FailureOr<llvm::SmallVector<mlir::Value>> mine::RowNormOp::decompose(mlir::OpBuilder &b) {
  Val x(b, getLoc(), getInput());
  Val total = sum(x * x, {x.rank() - 1}) + getEps().convertToDouble();
  return llvm::SmallVector<mlir::Value>{sqrt(total)};
}
mlir::LogicalResult mine::RowNormOp::differentiate(GradContext &ctx) {
  // x / |x|, for each row. A property of the op is ctx.properties<RowNormOp>().eps.
  Val x = ctx.operand(0);
  Dims dims = dimsOf(x.type()), column = dims;
  column.back() = Dim(1);
  Val scale = broadcastTo(reshapeTo(ctx.g() / ctx.result(0), column), dims);
  ctx.grad(0, x * scale);
  return success();
}
