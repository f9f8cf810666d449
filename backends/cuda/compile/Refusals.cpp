#include "backends/cuda/compile/Refusals.h"

#include "dialects/weft/ir/Weft.h"

namespace weft::backends::cuda {

using namespace mlir;
using compiler::ClaimRefusal;

namespace {

class Refusals : public compiler::Provider {
public:
  StringRef name() const override {
    return "cuda.refusals";
  }

  compiler::ClaimAnswer match(Operation *op, compiler::MathMode) const override {
    if (isa<ir::ArgSortOp>(op))
      return ClaimRefusal{"no-sort", "the device has no sort of its own: each element is compared "
                                     "with each other along the dim"};
    if (isa<ir::SolveTriangularOp>(op))
      return ClaimRefusal{"no-factorization",
                          "the device has no triangular solver of its own: it multiplies by the "
                          "inverse, whose blocks double in size"};
    if (isa<ir::CholeskyOp, ir::LuOp>(op))
      return ClaimRefusal{"no-factorization",
                          "the device has no factorizations of its own: a few kernels a column "
                          "compute them, for small matrices"};
    return compiler::NotMine{};
  }
};

} // namespace

std::unique_ptr<compiler::Provider> makeRefusals() {
  return std::make_unique<Refusals>();
}

} // namespace weft::backends::cuda
