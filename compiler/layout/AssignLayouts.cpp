#include "compiler/graph/Slice.h"
#include "compiler/layout/LayoutTable.h"
#include "compiler/layout/Passes.h"

namespace weft::compiler {

#define GEN_PASS_DEF_ASSIGNLAYOUTSPASS
#include "compiler/layout/Passes.h.inc"

namespace {

class AssignLayoutsPass : public impl::AssignLayoutsPassBase<AssignLayoutsPass> {
public:
  using AssignLayoutsPassBase::AssignLayoutsPassBase;

  void runOnOperation() override {
    mlir::func::FuncOp main = sliceMain(getOperation());
    if (!main) return signalPassFailure();
    llvm::FailureOr<LayoutTable> table = LayoutTable::of(main);
    if (failed(table)) return signalPassFailure();
    if (table->numOthers() == 0) return;
    for (auto [i, argument] : llvm::enumerate(main.getArguments()))
      if (!isRowMajor(table->orderOf(argument)))
        main.emitError() << "argument " << i
                         << " of @main is not row-major; backends read and write row-major tensors only: pass a tensor of "
                         << "the permuted shape and put a weft.transpose in front of its uses";
    signalPassFailure();
  }
};

} // namespace
} // namespace weft::compiler
