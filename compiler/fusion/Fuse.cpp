#include "compiler/fusion/FusionBuilder.h"
#include "compiler/fusion/Passes.h"
#include "compiler/graph/Slice.h"
#include "compiler/pipeline/Report.h"
#include "dialects/weft/ir/Weft.h"

namespace weft::compiler {

#define GEN_PASS_DEF_FUSEPASS
#include "compiler/fusion/Passes.h.inc"

namespace {

// What stays outside of fusions: it costs no kernel.
bool staysOutside(mlir::Operation &op) { return mlir::isa<ir::ReshapeOp, ir::ConstantOp, ir::ProviderCallOp, ir::FusionOp>(op); }

class FusePass : public impl::FusePassBase<FusePass> {
public:
  using FusePassBase::FusePassBase;
  FusePass(FusePassOptions options, CompileReport *report) : FusePassBase(options), report_(report) {}
  FusePass(const FusePass &other) : FusePassBase(other), report_(other.report_) {}

  void runOnOperation() override {
    mlir::func::FuncOp main = sliceMain(getOperation());
    if (!main) return signalPassFailure();
    mlir::Block &block = main.getBody().front();
    FusionGroups groups;
    for (mlir::Operation &op : block.without_terminator())
      if (!staysOutside(op)) groups.push_back({&op});
    if (failed(buildFusions(block, groups))) return signalPassFailure();
  }

private:
  CompileReport *report_ = nullptr;
};

} // namespace

std::unique_ptr<mlir::Pass> createFusePass(FusePassOptions options, CompileReport *report) {
  return std::make_unique<FusePass>(std::move(options), report);
}

} // namespace weft::compiler
