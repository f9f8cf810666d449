// weft-expand: one walk writes out what is short for elementwise ops (ir::WrittenOut).
#include "compiler/graph/DecomposeOp.h"
#include "compiler/graph/Passes.h"
#include "compiler/graph/Slice.h"
#include "dialects/weft/ir/Weft.h"

namespace weft::compiler {

#define GEN_PASS_DEF_EXPANDPASS
#include "compiler/graph/Passes.h.inc"

namespace {

class ExpandPass : public impl::ExpandPassBase<ExpandPass> {
public:
  using ExpandPassBase::ExpandPassBase;

  void runOnOperation() override {
    mlir::func::FuncOp main = sliceMain(getOperation());
    if (!main)
      return signalPassFailure();
    for (mlir::Operation &op :
         llvm::make_early_inc_range(main.getBody().front().without_terminator()))
      if (op.hasTrait<ir::WrittenOut>()) {
        if (failed(decomposeOp(mlir::cast<ir::WeftOp>(op))))
          return signalPassFailure();
        ++numExpanded;
      }
  }
};

} // namespace
} // namespace weft::compiler
