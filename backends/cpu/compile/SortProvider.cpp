#include "backends/cpu/compile/SortProvider.h"

#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Builders.h"

namespace weft::backends::cpu {

using namespace mlir;

namespace {

using compiler::Claim;
using compiler::ClaimAnswer;
using compiler::ClaimRefusal;
using compiler::NotMine;

class SortProvider : public compiler::Provider {
public:
  StringRef name() const override {
    return "weft.arg_sort";
  }
  bool takesVaryingSizes() const override {
    return true;
  }

  ClaimAnswer match(Operation *op, compiler::MathMode) const override {
    auto sort = dyn_cast<ir::ArgSortOp>(op);
    if (!sort)
      return NotMine{};
    if (llvm::is_contained(ir::shapeOf(sort), 0))
      return ClaimRefusal{"empty", "there is nothing to sort"};
    Claim claim;
    Builder builder(op->getContext());
    claim.set("dim", sort.getDimAttr());
    if (sort.getDescending())
      claim.set("descending", builder.getI64IntegerAttr(1));
    claim.ops.push_back(op);
    claim.inputs.push_back(sort.getInput());
    claim.outputs.push_back(sort.getResult());
    return claim;
  }
};

} // namespace

std::unique_ptr<compiler::Provider> makeSortProvider() {
  return std::make_unique<SortProvider>();
}

} // namespace weft::backends::cpu
