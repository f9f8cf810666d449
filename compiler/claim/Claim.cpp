#include "compiler/claim/Passes.h"
#include "compiler/graph/Slice.h"
#include "compiler/pipeline/Report.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/IRMapping.h"

namespace weft::compiler {

#define GEN_PASS_DEF_CLAIMPASS
#include "compiler/claim/Passes.h.inc"

namespace {

// Replaces the claimed ops by a call that holds copies of them. The call stands where the last of them stood.
void makeCall(const Provider &provider, const Claim &claim) {
  mlir::Operation *last = claim.ops.back();
  mlir::OpBuilder builder(last);
  mlir::MLIRContext *context = builder.getContext();
  llvm::SmallVector<mlir::Type> types;
  for (mlir::Value output : claim.outputs) types.push_back(output.getType());
  llvm::SmallVector<mlir::Location> locations;
  for (mlir::Operation *op : claim.ops)
    if (!llvm::is_contained(locations, op->getLoc())) locations.push_back(op->getLoc());
  mlir::Location loc = locations.size() == 1 ? locations.front() : mlir::FusedLoc::get(context, locations);
  auto call = ir::ProviderCallOp::create(builder, loc, types, claim.inputs, builder.getStringAttr(provider.name()),
                                         builder.getDictionaryAttr(claim.config));
  call.getBody().getBlocks().clear();
  mlir::Block &body = call.getBody().emplaceBlock();
  mlir::IRMapping mapping;
  for (mlir::Value input : claim.inputs) mapping.map(input, body.addArgument(input.getType(), input.getLoc()));
  builder.setInsertionPointToEnd(&body);
  for (mlir::Operation *op : claim.ops) builder.clone(*op, mapping);
  llvm::SmallVector<mlir::Value> yielded;
  for (mlir::Value output : claim.outputs) yielded.push_back(mapping.lookup(output));
  ir::YieldOp::create(builder, loc, yielded);
  for (auto [i, output] : llvm::enumerate(claim.outputs)) mlir::Value(output).replaceAllUsesWith(call.getResult(i));
}

class ClaimPass : public impl::ClaimPassBase<ClaimPass> {
public:
  using ClaimPassBase::ClaimPassBase;
  ClaimPass(ClaimPassOptions options, const ProviderSet *providers, CompileReport *report)
      : ClaimPassBase(options), providers_(providers), report_(report) {}
  ClaimPass(const ClaimPass &other) : ClaimPassBase(other), providers_(other.providers_), report_(other.report_) {}

  void runOnOperation() override {
    mlir::func::FuncOp main = sliceMain(getOperation());
    if (!main) return signalPassFailure();
    if (!providers_) return;
    mlir::Block &block = main.getBody().front();
    RefusalCollector refusals("claim");
    bool changed = false;
    // A claim may take in ops after the one that was offered, so that the walk goes by the op before.
    for (mlir::Operation *op = &block.front(), *next; op; op = next) {
      next = op->getNextNode();
      auto weftOp = mlir::dyn_cast<ir::WeftOp>(op);
      if (!weftOp || (weftOp.kind() == ir::Kind::Composite) != composites || op->use_empty()) continue;
      for (const std::unique_ptr<Provider> &provider : providers_->providers()) {
        ClaimAnswer answer = provider->match(op, fastMath);
        if (auto *refusal = std::get_if<ClaimRefusal>(&answer)) refusals.add(refusal->reason, op, refusal->explanation);
        auto *claim = std::get_if<Claim>(&answer);
        if (!claim) continue;
        for (const auto &[neighbour, refusal] : claim->left) refusals.add(refusal.reason, neighbour, refusal.explanation);
        makeCall(*provider, *claim);
        ++numClaims;
        changed = true;
        break;
      }
    }
    if (changed)
      for (mlir::Operation *op = &block.back(); op;) {
        mlir::Operation *previous = op->getPrevNode();
        if (mlir::isOpTriviallyDead(op)) op->erase();
        op = previous;
      }
    refusals.flush(report_);
    if (printReport)
      for (const std::string &line : refusals.lines()) llvm::errs() << "// " << line << "\n";
  }

private:
  const ProviderSet *providers_ = nullptr;
  CompileReport *report_ = nullptr;
};

} // namespace

std::unique_ptr<mlir::Pass> createClaimPass(ClaimPassOptions options, const ProviderSet *providers, CompileReport *report) {
  return std::make_unique<ClaimPass>(std::move(options), providers, report);
}

} // namespace weft::compiler
