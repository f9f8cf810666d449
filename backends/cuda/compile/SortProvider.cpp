#include "backends/cuda/compile/SortProvider.h"

#include "dialects/weft/ir/Weft.h"

namespace weft::backends::cuda {
namespace {

class SortProvider : public compiler::Provider {
public:
  llvm::StringRef name() const override {
    return "cuda.arg_sort";
  }

  compiler::ClaimAnswer match(mlir::Operation *op, compiler::MathMode) const override {
    if (!mlir::isa<ir::ArgSortOp>(op))
      return compiler::NotMine{};
    return compiler::ClaimRefusal{"no-sort", "the device has no sort of its own: each element is "
                                             "compared with each other along the dim"};
  }
};

} // namespace

std::unique_ptr<compiler::Provider> makeSortProvider() {
  return std::make_unique<SortProvider>();
}

} // namespace weft::backends::cuda
