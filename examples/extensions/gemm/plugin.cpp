// What the library computes of a program, and the plugin that registers it: WEFT_PLUGINS=./gemm.so
#include "compiler/plugin/Plugin.h"
#include "dialects/weft/ir/Weft.h"

#include "entry.h"

namespace {

using namespace weft::compiler;

class GemmProvider : public Provider {
public:
  llvm::StringRef name() const override {
    return "mine.gemm";
  }
  // Sizes are read from the call's operands, so that they may vary.
  bool takesVaryingSizes() const override {
    return true;
  }
  ClaimAnswer match(mlir::Operation *op, MathMode) const override {
    auto product = mlir::dyn_cast<weft::ir::MatmulOp>(op);
    if (!product)
      return NotMine{};
    auto type = mlir::cast<mlir::RankedTensorType>(product.getType());
    if (!type.getElementType().isF32())
      return ClaimRefusal{"gemm-dtype", "mine.gemm multiplies float32 alone"};
    if (type.getRank() != 2 || product.getTransposeLhs() || product.getTransposeRhs())
      return ClaimRefusal{"gemm-shape", "mine.gemm takes two matrices as they lie, no batches"};
    Claim claim;
    claim.ops = {op};
    claim.inputs = {product.getLhs(), product.getRhs()};
    claim.outputs = {product.getResult()};
    return claim;
  }
};

void registerAll(PluginRegistrar &registrar) {
  registrar.registerProvider({
      .backend = "cpu",
      .provider = std::make_shared<GemmProvider>(),
      .entry = &mine::gemm_entry(),
      .version = "1.0",
      // Beside the plugin: what programs compiled ahead of time are linked with.
      .library = {.finder = "mine_gemm_find", .files = {"libmine_gemm.a"}},
  });
}

} // namespace

extern "C" weft::compiler::PluginInfo weft_plugin() {
  return {kPluginApiVersion, "mine-gemm", "1.0", registerAll};
}
