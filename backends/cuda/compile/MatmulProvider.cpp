#include "backends/cuda/compile/MatmulProvider.h"

#include "backends/cuda/compile/Limits.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Builders.h"

namespace weft::backends::cuda {
namespace {

using compiler::Claim;
using compiler::ClaimAnswer;
using compiler::ClaimRefusal;
using compiler::NotMine;

class MatmulProvider : public compiler::Provider {
public:
  llvm::StringRef name() const override {
    return "cublaslt.matmul";
  }

  ClaimAnswer match(mlir::Operation *op, compiler::MathMode) const override {
    auto matmul = mlir::dyn_cast<ir::MatmulOp>(op);
    if (!matmul)
      return NotMine{};
    auto shapeOf = [](mlir::Value value) {
      return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
    };
    llvm::ArrayRef<int64_t> lhs = shapeOf(matmul.getLhs()), rhs = shapeOf(matmul.getRhs()),
                            out = shapeOf(op->getResult(0));
    if (!mlir::isa<mlir::FloatType>(mlir::getElementTypeOrSelf(matmul.getLhs().getType())))
      return ClaimRefusal{"dtype", "cuBLASLt multiplies numbers of floating-point dtypes"};
    if (lhs.size() < 2 || rhs.size() < 2)
      return ClaimRefusal{"vector", "cuBLASLt multiplies matrices; a vector is our kernel's"};
    int64_t depth = matmul.getTransposeLhs() ? lhs.end()[-2] : lhs.back(), elements = 1;
    for (int64_t size : out)
      elements *= size;
    if (elements == 0 || depth == 0)
      return ClaimRefusal{"empty", "there is nothing to multiply"};
    if (elements < (kMinMultiplications + depth - 1) / depth)
      return ClaimRefusal{"too-small",
                          "a call of the library takes longer than a product of this size"};
    auto batch = [](llvm::ArrayRef<int64_t> shape) {
      return shape.drop_back(2);
    };
    if (batch(lhs) != batch(out) || (rhs.size() != 2 && batch(rhs) != batch(out)))
      return ClaimRefusal{"repeated-batch",
                          "the call repeats no operand over batch dims, but for an rhs of rank 2"};
    Claim claim;
    mlir::Builder builder(op->getContext());
    auto flag = [&](llvm::StringRef name) {
      claim.config.emplace_back(builder.getStringAttr(name), builder.getI64IntegerAttr(1));
    };
    if (matmul.getTransposeLhs())
      flag("transpose_lhs");
    if (matmul.getTransposeRhs())
      flag("transpose_rhs");
    claim.ops.push_back(op);
    claim.inputs.append({matmul.getLhs(), matmul.getRhs()});
    claim.outputs.push_back(op->getResult(0));
    return claim;
  }
};

} // namespace

std::unique_ptr<compiler::Provider> makeMatmulProvider() {
  return std::make_unique<MatmulProvider>();
}

} // namespace weft::backends::cuda
