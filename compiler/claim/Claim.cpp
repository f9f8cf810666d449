#include "compiler/claim/ClaimSteps.h"
#include "compiler/claim/MakeCall.h"
#include "compiler/claim/Passes.h"
#include "compiler/graph/DecomposeOp.h"
#include "compiler/graph/Slice.h"
#include "compiler/pipeline/Report.h"
#include "dialects/weft/ir/Weft.h"
#include "runtime/core/thrown.h"

namespace weft::compiler {

using namespace mlir;

#define GEN_PASS_DEF_CLAIMPASS
#include "compiler/claim/Passes.h.inc"

namespace {

class ClaimPass : public impl::ClaimPassBase<ClaimPass> {
public:
  using ClaimPassBase::ClaimPassBase;
  ClaimPass(ClaimPassOptions options, const ProviderSet *providers, CompileReport *report)
      : ClaimPassBase(options), providers_(providers), report_(report) {}

  void runOnOperation() override {
    func::FuncOp main = sliceMain(getOperation());
    if (!main)
      return signalPassFailure();
    if (!providers_)
      return;
    Block &block = main.getBody().front();
    MathMode math = exactMath ? MathMode::Exact : fastMath ? MathMode::Fast : MathMode::Default;
    RefusalCollector refusals("claim");
    bool changed = false;
    // A claim may take in ops after the one that was offered, so that the walk goes by the op
    // before.
    for (Operation *op = &block.front(), *next; op; op = next) {
      next = op->getNextNode();
      auto weftOp = dyn_cast<ir::WeftOp>(op);
      if (!weftOp || (weftOp.kind() == ir::Kind::Composite) != composites || op->use_empty())
        continue;
      bool varies = hasVaryingSizes(op), claimed = false;
      auto sometimes = [&](const SometimesMine &answer, StringRef who) {
        signalPassFailure();
        if (!varies) {
          op->emitOpError("is offered to ")
              << who
              << ", which answers SometimesMine; that is for sizes that vary, and this op's do not "
                 "(it says: "
              << answer.explanation << ")";
          return;
        }
        if (report_)
          report_->takesSomeSizes = true;
        op->emitError() << op->getName() << ": " << answer.explanation;
      };
      for (const std::shared_ptr<const Provider> &provider : providers_->providers()) {
        ClaimAnswer answer;
        try {
          answer = provider->match(op, math);
        } catch (...) {
          op->emitOpError("is offered to the provider '")
              << provider->name() << "', whose match " << runtime::thrown_text();
          return signalPassFailure();
        }
        if (auto *some = std::get_if<SometimesMine>(&answer))
          return sometimes(*some, ("the provider '" + provider->name() + "'").str());
        if (auto *refusal = std::get_if<ClaimRefusal>(&answer)) {
          if (refusal->reason.empty()) {
            op->emitOpError("is refused by the provider '")
                << provider->name() << "', whose refusal has no name; set ClaimRefusal::reason";
            return signalPassFailure();
          }
          refusals.add(refusal->reason, op, refusal->explanation);
        }
        auto *claim = std::get_if<Claim>(&answer);
        if (!claim)
          continue;
        if (varies && !provider->takesVaryingSizes()) {
          refusals.add("varying-sizes", op,
                       "calls of the library have one size, and this op's vary");
          continue;
        }
        if (std::string wrong = whyNoClaim(*claim); !wrong.empty()) {
          op->emitOpError("is claimed by the provider '")
              << provider->name() << "', whose claim " << wrong;
          return signalPassFailure();
        }
        for (const auto &[neighbour, refusal] : claim->left)
          refusals.add(refusal.reason, neighbour, refusal.explanation);
        makeCall(provider->name(), *claim);
        ++numClaims;
        changed = claimed = true;
        break;
      }
      if (!composites || claimed)
        continue;
      KernelAnswer kernel = providers_->kernelFor(op);
      if (auto *some = std::get_if<SometimesMine>(&kernel))
        return sometimes(*some, "the backend");
      if (auto *refusal = std::get_if<ClaimRefusal>(&kernel))
        refusals.add(refusal->reason, op, refusal->explanation);
      if (std::holds_alternative<OwnKernel>(kernel))
        op->setAttr(kWholeAttr, UnitAttr::get(op->getContext()));
    }
    if (changed)
      for (Operation *op = &block.back(); op;) {
        Operation *previous = op->getPrevNode();
        if (isOpTriviallyDead(op))
          op->erase();
        op = previous;
      }
    refusals.flush(report_, printReport);
  }

private:
  const ProviderSet *providers_ = nullptr;
  CompileReport *report_ = nullptr;
};

} // namespace

std::unique_ptr<Pass> createClaimPass(ClaimPassOptions options, const ProviderSet *providers,
                                      CompileReport *report) {
  return std::make_unique<ClaimPass>(std::move(options), providers, report);
}

} // namespace weft::compiler
