#include "compiler/fusion/WriteInPlace.h"

#include "compiler/fusion/FusionLimits.h"
#include "compiler/fusion/TensorBytes.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/rules/Rules.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace weft::compiler {

using mlir::Value;

namespace {

bool mayBeOverwritten(Value value) {
  auto argument = mlir::dyn_cast<mlir::BlockArgument>(value);
  auto main = argument ? mlir::dyn_cast<mlir::func::FuncOp>(argument.getOwner()->getParentOp())
                       : mlir::func::FuncOp();
  return main && main.getArgAttr(argument.getArgNumber(), ir::kDonatableAttr) &&
         !main.getArgAttr(argument.getArgNumber(), ir::kKeptAttr);
}

// Whether the write is the only one of a chain: a chain's writes are one kernel, which writes its
// result once.
bool isAlone(ir::InsertSliceOp op) {
  return op.getBase().hasOneUse() && llvm::none_of(op->getUsers(), [&](mlir::Operation *user) {
           auto next = mlir::dyn_cast<ir::InsertSliceOp>(user);
           return next && next.getBase() == op.getResult();
         });
}

// The one dim of which the op writes a part.
std::optional<int64_t> rowsOf(ir::InsertSliceOp op, llvm::ArrayRef<bool> varies) {
  mlir::RankedTensorType base = op.getBase().getType(), update = op.getUpdate().getType();
  std::optional<int64_t> rows;
  for (int64_t d = 0; d < base.getRank(); ++d) {
    bool isWhole = (varies.empty() || !varies[d]) && op.getStarts()[d] == 0 &&
                   op.getSteps()[d] == 1 && update.getDimSize(d) == base.getDimSize(d);
    if (isWhole)
      continue;
    if (rows)
      return std::nullopt;
    rows = d;
  }
  return rows;
}

// One thread writes them.
bool areFew(mlir::RankedTensorType rows, mlir::RankedTensorType of) {
  double part = tensorBytes(rows), all = tensorBytes(of);
  return part <= limits::kMaxWrittenBytes && all >= part * limits::kWrittenPart &&
         all >= limits::kMinOverwritten;
}

} // namespace

std::optional<int64_t> rowsWrittenInPlace(ir::InsertSliceOp op, llvm::ArrayRef<bool> varies) {
  mlir::RankedTensorType base = op.getBase().getType(), update = op.getUpdate().getType();
  if (!base.hasStaticShape() || ir::hasNamedDims(base) || !areFew(update, base) ||
      !mayBeOverwritten(op.getBase()) || !isAlone(op))
    return std::nullopt;
  return rowsOf(op, varies);
}

Value putRows(mlir::OpBuilder &builder, ir::InsertSliceOp op, int64_t dim, Value start) {
  ir::Val like(builder, op.getLoc(), op.getBase());
  int64_t n = op.getUpdate().getType().getDimSize(dim);
  ir::Val rows = ir::iota(like, {n}, 0, builder.getI64Type());
  if (int64_t step = op.getSteps()[dim]; step != 1)
    rows = rows * double(step);
  if (start)
    rows = rows + rows.at(start);
  else if (int64_t first = op.getStarts()[dim])
    rows = rows + double(first);
  return ir::IndexPutOp::create(builder, op.getLoc(), op.getType(), op.getBase(), rows.value(),
                                op.getUpdate(), dim, "");
}

void writeInPlace(mlir::Block &block) {
  for (mlir::Operation &op : llvm::make_early_inc_range(block)) {
    auto insert = mlir::dyn_cast<ir::InsertSliceOp>(op);
    std::optional<int64_t> dim = insert ? rowsWrittenInPlace(insert) : std::nullopt;
    if (!dim)
      continue;
    mlir::OpBuilder builder(insert);
    insert.getResult().replaceAllUsesWith(putRows(builder, insert, *dim));
    insert.erase();
  }
}

} // namespace weft::compiler
