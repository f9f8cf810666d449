#include "backends/cuda/compile/RoundToBFloat16.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

namespace weft::backends::cuda {

using namespace mlir;

// As i32 until the end: StorageTypes makes integers of what is a bf16, results of calls as well.
static Value roundPair(OpBuilder &b, Location loc, Value low, Value high) {
  return LLVM::InlineAsmOp::create(b, loc, b.getI32Type(), ValueRange{low, high}, kRoundPair,
                                   "=r,f,f", /*has_side_effects=*/false, /*is_align_stack=*/false,
                                   LLVM::tailcallkind::TailCallKind::None,
                                   /*asm_dialect=*/nullptr, /*operand_attrs=*/nullptr)
      .getResult(0);
}

static Value rounded(OpBuilder &b, Location loc, Value x) {
  Type i16 = b.getIntegerType(16);
  auto type = dyn_cast<VectorType>(x.getType());
  if (!type) {
    Value zero = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0));
    return arith::TruncIOp::create(b, loc, i16, roundPair(b, loc, x, zero));
  }
  int64_t lanes = type.getNumElements();
  auto words = VectorType::get({lanes / 2}, b.getI32Type());
  Value all = arith::ConstantOp::create(b, loc, words, b.getZeroAttr(words));
  auto lane = [&](int64_t i) -> Value {
    return vector::ExtractOp::create(b, loc, x, i);
  };
  for (int64_t i = 0; i < lanes; i += 2)
    all = vector::InsertOp::create(b, loc, roundPair(b, loc, lane(i), lane(i + 1)), all, i / 2);
  return vector::BitCastOp::create(b, loc, VectorType::get({lanes}, i16), all);
}

void roundToBFloat16ByInstruction(ModuleOp module) {
  module.walk([](arith::TruncFOp op) {
    Value x = op.getOperand();
    if (!getElementTypeOrSelf(op.getType()).isBF16() || !getElementTypeOrSelf(x.getType()).isF32())
      return;
    // Vectors of a GPU's kernels have two elements or a multiple.
    OpBuilder b(op);
    Value bits = rounded(b, op.getLoc(), x);
    op->replaceAllUsesWith(arith::BitcastOp::create(b, op.getLoc(), op.getType(), bits));
    op->erase();
  });
}

} // namespace weft::backends::cuda
