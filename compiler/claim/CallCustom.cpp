// weft-call-custom: kernels of users become library calls, so that fusing, planning and running
// treat them as such.
#include "compiler/claim/ClaimSteps.h"
#include "compiler/claim/MakeCall.h"
#include "compiler/claim/Passes.h"
#include "compiler/graph/Slice.h"
#include "dialects/weft/ir/Custom.h"

namespace weft::compiler {

using namespace mlir;

#define GEN_PASS_DEF_CALLCUSTOMPASS
#include "compiler/claim/Passes.h.inc"

namespace {

class CallCustomPass : public impl::CallCustomPassBase<CallCustomPass> {
public:
  using CallCustomPassBase::CallCustomPassBase;

  void runOnOperation() override {
    func::FuncOp main = sliceMain(getOperation());
    if (!main)
      return signalPassFailure();
    for (Operation &op : llvm::make_early_inc_range(main.getBody().front())) {
      auto custom = dyn_cast<ir::CustomOp>(op);
      if (!custom)
        continue;
      if (hasVaryingSizes(custom)) {
        custom.emitOpError("has no form for sizes that vary");
        return signalPassFailure();
      }
      Builder builder(&getContext());
      Claim claim;
      claim.ops.push_back(custom);
      llvm::append_range(claim.inputs, custom.getInputs());
      llvm::append_range(claim.outputs, custom.getOutputs());
      // Configurations hold no lists of floats: the bits of each.
      SmallVector<int64_t> scalars;
      for (double scalar : custom.getScalars())
        scalars.push_back(llvm::bit_cast<int64_t>(scalar));
      claim.config = {builder.getNamedAttr("kernel", custom.getKernelAttr()),
                      builder.getNamedAttr("ints", builder.getDenseI64ArrayAttr(custom.getInts())),
                      builder.getNamedAttr("scalar_bits", builder.getDenseI64ArrayAttr(scalars))};
      makeCall(kCustomEntry, claim);
      op.erase();
    }
  }
};

} // namespace
} // namespace weft::compiler
