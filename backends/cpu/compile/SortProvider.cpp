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
    if (ir::SliceOp places = soleSlice(sort)) {
      claim.set("first", builder.getI64IntegerAttr(places.getStarts()[sort.getDim()]));
      claim.ops.push_back(places);
      claim.outputs[0] = places.getResult();
    }
    return claim;
  }

private:
  // All that is read of the order: a part along its dim, which is found without the order of the
  // rest (a median). Null where it is read otherwise.
  static ir::SliceOp soleSlice(ir::ArgSortOp sort) {
    auto slice = sort->hasOneUse() ? dyn_cast<ir::SliceOp>(*sort->user_begin()) : nullptr;
    if (!slice || !slice.getType().hasStaticShape())
      return nullptr;
    for (auto [dim, start] : llvm::enumerate(slice.getStarts())) {
      bool isWhole = slice.getType().getDimSize(dim) == sort.getType().getDimSize(dim);
      if (slice.getSteps()[dim] != 1 || (dim != sort.getDim() && !isWhole))
        return nullptr;
    }
    return slice;
  }
};

} // namespace

std::unique_ptr<compiler::Provider> makeSortProvider() {
  return std::make_unique<SortProvider>();
}

} // namespace weft::backends::cpu
