#include "compiler/graph/DecomposeOp.h"
#include "compiler/graph/Slice.h"
#include "compiler/layout/ChannelsLast.h"
#include "compiler/layout/Passes.h"
#include "compiler/pipeline/Report.h"

namespace weft::compiler {

using namespace mlir;

#define GEN_PASS_DEF_ASSIGNLAYOUTSPASS
#include "compiler/layout/Passes.h.inc"

namespace {

class AssignLayoutsPass : public impl::AssignLayoutsPassBase<AssignLayoutsPass> {
public:
  using AssignLayoutsPassBase::AssignLayoutsPassBase;
  AssignLayoutsPass(const ProviderSet *providers, CompileReport *report)
      : providers_(providers), report_(report) {}

  void runOnOperation() override {
    func::FuncOp main = sliceMain(getOperation());
    if (!main || failed(checkArguments(main)))
      return signalPassFailure();
    if (providers_ && failed(assign(main)))
      signalPassFailure();
  }

private:
  llvm::LogicalResult checkArguments(func::FuncOp main) {
    llvm::FailureOr<LayoutTable> table = LayoutTable::of(main);
    if (failed(table))
      return llvm::failure();
    if (table->numOthers() == 0)
      return llvm::success();
    for (auto [i, argument] : llvm::enumerate(main.getArguments()))
      if (!isRowMajor(table->orderOf(argument)))
        main.emitError() << "argument " << i
                         << " of @main is not row-major; backends read and write row-major tensors "
                            "only: pass a tensor of "
                         << "the permuted shape and put a weft.transpose in front of its uses";
    return llvm::failure();
  }

  llvm::LogicalResult assign(func::FuncOp main) {
    ChannelsLast layouts(main.getBody().front(), *providers_);
    layouts.analyze();
    if (layouts.numConvolutions() == 0)
      return llvm::success();
    if (!layouts.pays()) {
      remark(Twine(layouts.numConvolutions()) + " convolutions stay row-major, which copy " +
             Twine(layouts.copiedBytes()) +
             " bytes of images inside their calls: channels-last-saves-nothing: it would take " +
             Twine(layouts.numTransposes()) + " reorders of " + Twine(layouts.transposedBytes()) +
             " bytes");
      return llvm::success();
    }
    SmallVector<Operation *> composites(layouts.composites());
    for (Operation *op : composites)
      if (failed(decomposeOp(cast<ir::WeftOp>(op))))
        return llvm::failure();
    layouts.analyze();
    layouts.apply();
    numConvolutions += layouts.numConvolutions();
    numReorders += layouts.numTransposes();
    remark(Twine(layouts.numConvolutions()) + " convolutions have channels last; " +
           Twine(layouts.numTransposes()) + " reorders of " + Twine(layouts.transposedBytes()) +
           " bytes stay in the program, in place of " + Twine(layouts.copiedBytes()) +
           " bytes copied inside calls");
    return llvm::success();
  }

  void remark(const Twine &text) {
    std::string line = ("layout: " + text).str();
    if (report_)
      report_->remarks.push_back(line);
    if (printReport)
      llvm::errs() << "// " << line << "\n";
  }

  const ProviderSet *providers_ = nullptr;
  CompileReport *report_ = nullptr;
};

} // namespace

std::unique_ptr<Pass> createAssignLayoutsPass(const ProviderSet *providers, CompileReport *report) {
  return std::make_unique<AssignLayoutsPass>(providers, report);
}

} // namespace weft::compiler
