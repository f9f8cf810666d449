#include "backends/cpu/compile/FactorProvider.h"

#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/TypeSwitch.h"

namespace weft::backends::cpu {

using namespace mlir;

namespace {

using compiler::Claim;
using compiler::ClaimAnswer;
using compiler::ClaimRefusal;
using compiler::NotMine;

class FactorProvider : public compiler::Provider {
public:
  FactorProvider(StringRef entry) : entry_(entry) {}
  StringRef name() const override {
    return entry_;
  }

  ClaimAnswer match(Operation *op, compiler::MathMode) const override {
    using Flags = SmallVector<std::pair<const char *, bool>>;
    StringRef entry;
    Flags flags;
    TypeSwitch<Operation *>(op)
        .Case([&](ir::CholeskyOp) { entry = "weft.factor.cholesky"; })
        .Case([&](ir::LuOp lu) {
          entry = "weft.factor.lu";
          flags = {{"regular", lu.getRegular()}};
        })
        .Case([&](ir::SolveTriangularOp solve) {
          entry = "weft.factor.solve";
          flags = {{"upper", solve.getUpper()},
                   {"unit", solve.getUnit()},
                   {"transposed", solve.getTransposed()}};
        });
    if (entry != entry_)
      return NotMine{};
    auto type = ir::typeOf(op->getResult(0));
    if (llvm::is_contained(type.getShape(), 0))
      return ClaimRefusal{"empty", "there is nothing to compute"};
    if (!type.getElementType().isF32() && !type.getElementType().isF64())
      return ClaimRefusal{"dtype", "factors are float32 or float64"};
    Claim claim;
    Builder builder(op->getContext());
    for (auto [flag, isSet] : flags)
      if (isSet)
        claim.set(flag, builder.getI64IntegerAttr(1));
    claim.ops.push_back(op);
    claim.inputs.append(op->operand_begin(), op->operand_end());
    claim.outputs.append(op->result_begin(), op->result_end());
    return claim;
  }

private:
  StringRef entry_;
};

} // namespace

void addFactorProviders(compiler::ProviderSet &set) {
  for (StringRef entry : {"weft.factor.cholesky", "weft.factor.lu", "weft.factor.solve"})
    set.add(std::make_unique<FactorProvider>(entry));
}

} // namespace weft::backends::cpu
