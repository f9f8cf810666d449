// A pass on the tensor graph: sqrt(x * x) is abs(x), which neither overflows nor loses digits.
#pragma once

#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Pass/Pass.h"

namespace mine {

class AbsPass : public mlir::PassWrapper<AbsPass, mlir::OperationPass<mlir::ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(AbsPass)
  llvm::StringRef getName() const override {
    return "mine-abs";
  }

  void runOnOperation() override {
    getOperation().walk([](weft::ir::SqrtOp root) {
      auto square = root.getInput().getDefiningOp<weft::ir::MulOp>();
      if (!square || square.getLhs() != square.getRhs())
        return;
      mlir::OpBuilder builder(root);
      root.replaceAllUsesWith(
          weft::ir::AbsOp::create(builder, root.getLoc(), square.getLhs()).getResult());
      root.erase();
      if (square.use_empty())
        square.erase();
    });
  }
};

} // namespace mine
