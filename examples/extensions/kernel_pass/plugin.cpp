// A pass on the IR of kernels: tanh by a cheap rational formula, which is off by 0.03 at most, in
// place of Weft's own, which is right to the last digits. For all that contains a tanh, in memory
// and ahead of time: WEFT_PLUGINS=./fast_tanh.so program
#include "compiler/plugin/Plugin.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"

namespace {

namespace arith = mlir::arith;

class FastTanh : public mlir::PassWrapper<FastTanh, mlir::OperationPass<mlir::ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FastTanh)
  llvm::StringRef getName() const override {
    return "mine-fast-tanh";
  }

  // x (27 + x^2) / (27 + 9 x^2), and 1 beyond |x| = 3. x is a float or a vector of them.
  void runOnOperation() override {
    getOperation().walk([](mlir::math::TanhOp tanh) {
      mlir::OpBuilder b(tanh);
      mlir::Location loc = tanh.getLoc();
      mlir::Value x = tanh.getOperand();
      mlir::Type type = x.getType();
      auto number = [&](double value) -> mlir::Value {
        mlir::TypedAttr one = b.getFloatAttr(mlir::getElementTypeOrSelf(type), value);
        if (auto vector = mlir::dyn_cast<mlir::VectorType>(type))
          one = mlir::DenseElementsAttr::get(vector, mlir::Attribute(one));
        return arith::ConstantOp::create(b, loc, one);
      };
      auto add = [&](mlir::Value l, mlir::Value r) -> mlir::Value {
        return arith::AddFOp::create(b, loc, l, r);
      };
      auto mul = [&](mlir::Value l, mlir::Value r) -> mlir::Value {
        return arith::MulFOp::create(b, loc, l, r);
      };
      x = arith::MaximumFOp::create(b, loc, number(-3), x);
      x = arith::MinimumFOp::create(b, loc, number(3), x);
      mlir::Value square = mul(x, x);
      mlir::Value over = mul(x, add(number(27), square)),
                  under = add(number(27), mul(number(9), square));
      tanh.replaceAllUsesWith(arith::DivFOp::create(b, loc, over, under).getResult());
      tanh.erase();
    });
  }
};

void registerAll(weft::compiler::PluginRegistrar &registrar) {
  // Before functions are expanded, so that they are seen as what they are.
  registrar.registerKernelPass(
      weft::compiler::KernelStage::Loops, [] { return std::make_unique<FastTanh>(); },
      "mine-fast-tanh", "1.0");
}

} // namespace

extern "C" weft::compiler::PluginInfo weft_plugin() {
  return {weft::compiler::kPluginApiVersion, "mine-fast-tanh", "1.0", registerAll};
}
