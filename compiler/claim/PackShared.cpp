// weft-pack-shared: one walk collects the calls whose provider would have an operand packed, by
// operand and by what the packed form depends on; each group that is large enough gets one call
// that packs, before its first user. The packed operand is a value like others: the plan gives it a
// buffer for as long as it is read.
#include "compiler/claim/Passes.h"
#include "compiler/graph/Slice.h"
#include "compiler/pipeline/CallUser.h"
#include "compiler/pipeline/Report.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/Weft.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace weft::compiler {

using namespace mlir;

#define GEN_PASS_DEF_PACKSHAREDPASS
#include "compiler/claim/Passes.h.inc"

namespace {

// Calls that can share one packed form.
struct Sharers {
  std::optional<OperandPacking>
      packing; // of the first; they differ in nothing that the form depends on
  SmallVector<ir::ProviderCallOp> calls;
};

using Key = std::tuple<Value, Attribute, Attribute>;

// Values that are the same in many runs: the executable has them packed for all of those
// (runtime/executable/program_prepare.cpp).
bool outlastsRun(Value value, func::FuncOp main) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return isa_and_present<ir::ConstantOp>(value.getDefiningOp());
  unsigned number = argument.getArgNumber();
  return main.getArgAttr(number, ir::kPreparedAttr) || isStable(main, number);
}

// Empty where the packing can be made of the call's operand; a user's may be anything.
std::string whyNoPacking(const OperandPacking &packing, ir::ProviderCallOp call) {
  if (packing.operand >= call->getNumOperands())
    return ("names operand " + Twine(packing.operand) + "; the call has " +
            Twine(call->getNumOperands()))
        .str();
  if (!packing.entry || packing.entry.empty() || !packing.config)
    return "has no entry or no config; set OperandPacking::entry and config";
  if (!packing.packed.getName() || !packing.packed.getValue())
    return "has nothing to tell the call's entry; set OperandPacking::packed";
  if (call.getConfig().contains(packing.packed.getName()))
    return ("says '" + packing.packed.getName().strref() +
            "' to the call's entry, which its config says already; answer NotMine there")
        .str();
  return "";
}

void share(const Sharers &sharers, Value plain) {
  const OperandPacking &packing = *sharers.packing;
  OpBuilder builder(sharers.calls.front());
  auto pack = ir::ProviderCallOp::create(builder, plain.getLoc(), TypeRange{plain.getType()},
                                         ValueRange{plain}, packing.entry, packing.config);
  // The form is the library's affair, not the IR's: the value is the same.
  pack.getBody().getBlocks().clear();
  Block &body = pack.getBody().emplaceBlock();
  Value argument = body.addArgument(plain.getType(), plain.getLoc());
  builder.setInsertionPointToEnd(&body);
  ir::YieldOp::create(builder, plain.getLoc(), argument);
  for (ir::ProviderCallOp call : sharers.calls) {
    call->setOperand(packing.operand, pack.getResult(0));
    SmallVector<NamedAttribute> config(call.getConfig().getValue());
    config.push_back(packing.packed);
    call.setConfigAttr(builder.getDictionaryAttr(config));
  }
}

class PackSharedPass : public impl::PackSharedPassBase<PackSharedPass> {
public:
  using PackSharedPassBase::PackSharedPassBase;
  PackSharedPass(PackSharedPassOptions options, const ProviderSet *providers, CompileReport *report)
      : PackSharedPassBase(options), providers_(providers), report_(report) {}

  void runOnOperation() override {
    func::FuncOp main = sliceMain(getOperation());
    if (!main)
      return signalPassFailure();
    if (!providers_)
      return;
    llvm::StringMap<const Provider *> byEntry;
    for (const std::shared_ptr<const Provider> &provider : providers_->providers())
      byEntry.try_emplace(provider->name(), provider.get());
    RefusalCollector refusals("claim");
    llvm::MapVector<Key, Sharers> groups;
    for (auto call : main.getBody().front().getOps<ir::ProviderCallOp>()) {
      const Provider *provider = byEntry.lookup(call.getCallee());
      if (!provider)
        continue;
      PackingAnswer answer =
          callUser([&] { return ("packing() of the provider '" + provider->name() + "'").str(); },
                   [&] { return provider->packing(call); });
      if (auto *refusal = std::get_if<ClaimRefusal>(&answer))
        refusals.add(refusal->reason, call, refusal->explanation);
      auto *packing = std::get_if<OperandPacking>(&answer);
      if (!packing)
        continue;
      if (std::string wrong = whyNoPacking(*packing, call); !wrong.empty()) {
        call.emitOpError("is offered to the provider '")
            << provider->name() << "', whose packing " << wrong;
        return signalPassFailure();
      }
      Sharers &sharers =
          groups[{call->getOperand(packing->operand), packing->entry, packing->config}];
      if (!sharers.packing)
        sharers.packing = *packing;
      sharers.calls.push_back(call);
    }
    for (auto &[key, sharers] : groups) {
      Value plain = std::get<0>(key);
      if (static_cast<int64_t>(sharers.calls.size()) < sharers.packing->minCalls ||
          outlastsRun(plain, main))
        continue;
      share(sharers, plain);
      ++numPacked;
    }
    refusals.flush(report_, printReport);
  }

private:
  const ProviderSet *providers_ = nullptr;
  CompileReport *report_ = nullptr;
};

} // namespace

std::unique_ptr<Pass> createPackSharedPass(PackSharedPassOptions options,
                                           const ProviderSet *providers, CompileReport *report) {
  return std::make_unique<PackSharedPass>(std::move(options), providers, report);
}

} // namespace weft::compiler
